/** The conversations over the server in memory; test/kube/conversations.test.ts has them with the real one. */
import { describe, test } from "vitest";
import { FakeStage } from "./fake-stage.ts";
import { converse } from "./run.ts";
import { CONVERSATIONS } from "./tables/all.ts";

describe("the server in memory", () => {
  for (const [index, conversation] of CONVERSATIONS.entries()) {
    const { first = 0, last = Number.POSITIVE_INFINITY } = conversation.minors ?? {};
    const stage = new FakeStage();
    test.skipIf(stage.minor < first || stage.minor > last)(conversation.title, async () => {
      await converse(conversation, stage, `talk-${index + 1}`);
    });
  }
});
