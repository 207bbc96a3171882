/** The conversations with a real API server, and whether the one in memory said the same in every word. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { comparable } from "../conversations/comparable.ts";
import { MemoryServer } from "../conversations/memory-server.ts";
import { RealServer } from "../conversations/real-server.ts";
import { converse } from "../conversations/run.ts";
import { CONVERSATIONS } from "../conversations/tables/all.ts";

/** The version that the server in memory speaks like; others word things otherwise. */
const MINOR = 20;

let server: RealServer;

beforeAll(async () => {
  server = await RealServer.start();
});
afterAll(async () => {
  await server?.stop();
});

describe("a real server", () => {
  for (const [index, conversation] of CONVERSATIONS.entries()) {
    test(conversation.title, async ({ skip }) => {
      const { first = 0, last = Number.POSITIVE_INFINITY } = conversation.minors ?? {};
      skip(server.minor < first || server.minor > last, `the server is 1.${server.minor}`);
      const id = `talk-${index + 1}`;
      const said = await converse(conversation, server, id);
      if (server.minor !== MINOR || conversation.hasOtherWriters) return;
      const inMemory = await converse(conversation, new MemoryServer(), id);
      expect(comparable(inMemory), "the server in memory").toEqual(comparable(said));
    });
  }
});
