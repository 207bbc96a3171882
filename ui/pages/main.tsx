/*
 * ui/pages/: what the reader sees, in the browser
 *
 *   main, app            the frame of every page with its theme, and which page the URL means
 *   ledger               what the page knows, and the stream that brings it; ask: questions beside it
 *   server/              how holdfast ui is asked: with a token; its events
 *   networks, network, address, vms, nodes, search   the pages
 *   address-space        the map of a subnet; past: time lines
 *   table, entries, parts, pictures, words, place   what pages are made of
 *   counts, free-runs   numbers from allocations; sliced: many rows in short tasks; signal: what is drawn again
 */

import { render } from "preact";
import { defineElements } from "../pictures/elements.ts";
import { App, applyTheme } from "./app.tsx";
import { connect, Ledger } from "./ledger.ts";
import { keepTime } from "./parts.tsx";
import { followLinks } from "./place.ts";
import { findToken } from "./server/token.ts";

findToken();
applyTheme();
defineElements();
followLinks();
keepTime();
const ledger = new Ledger();
void connect(ledger);
render(<App ledger={ledger} />, document.body);
