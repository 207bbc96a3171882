import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, errorOf, held, networkConf, past, pod, processTest, restart, test } from "./fixtures.ts";
import { apply, claim, withClaim } from "./manifests.ts";

/** A claim that is deleted and created again gets what it had, in a network with retainSeconds: docs/decisions/0068. */
