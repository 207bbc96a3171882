/** The conversations over the server in memory; test/kube/conversations.test.ts has them with the real one. */
import { describe, test } from "vitest";
import { MemoryServer } from "./memory-server.ts";
import { converse } from "./run.ts";
import { CONVERSATIONS } from "./tables/all.ts";

describe("the server in memory", () => {
  for (const [index, conversation] of CONVERSATIONS.entries()) {
    const { first = 0, last = Number.POSITIVE_INFINITY } = conversation.minors ?? {};
    const server = new MemoryServer();
    test.skipIf(server.minor < first || server.minor > last)(conversation.title, async () => {
      await converse(conversation, server, `talk-${index + 1}`);
    });
  }
});
