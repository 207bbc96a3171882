/** The conversations with a real API server, and whether the one in memory said the same in every word. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { comparable } from "../conversations/comparable.ts";
import { FakeStage } from "../conversations/fake-stage.ts";
import { converse } from "../conversations/run.ts";
import { ServerStage } from "../conversations/server-stage.ts";
import { CONVERSATIONS } from "../conversations/tables/all.ts";

/** The version that the server in memory speaks like; others word things otherwise. */
const MINOR = 20;

let stage: ServerStage;

beforeAll(async () => {
  stage = await ServerStage.start();
});
afterAll(async () => {
  await stage?.stop();
});

describe("a real server", () => {
  for (const [index, conversation] of CONVERSATIONS.entries()) {
    test(conversation.title, async ({ skip }) => {
      const { first = 0, last = Number.POSITIVE_INFINITY } = conversation.minors ?? {};
      skip(stage.minor < first || stage.minor > last, `the server is 1.${stage.minor}`);
      const id = `talk-${index + 1}`;
      const said = await converse(conversation, stage, id);
      if (stage.minor !== MINOR || conversation.hasOtherWriters) return;
      const inMemory = await converse(conversation, new FakeStage(), id);
      expect(comparable(inMemory), "the server in memory").toEqual(comparable(said));
    });
  }
});
