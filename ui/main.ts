/*
 * ui/: who holds which address, as a page in a browser
 *
 *   main, server       the entry of the bundle: files, questions and the stream on the loopback, and what is there now
 *   visitors           who may read it; loopback: where it listens; desktop: opens it
 *   source, follow-node   where the data comes from: a daemon that is asked again and again, or a watched cluster
 *   wire               the form in which it reaches each reader
 *   pictures/          bars, maps and time lines: data in, shapes out
 *   pages/             what the reader sees
 */

export { isOnDesktop, openOnDesktop } from "./desktop.ts";
export { NodeFollower } from "./follow-node.ts";
export { PageServer, PORT_DEFAULT } from "./server.ts";
