/** Of the project `hourly`: every periodic pass of what a file starts comes an hour after the one before. */
import { afterAll } from "vitest";
import { hourlyPasses } from "./hourly-passes.ts";

afterAll(hourlyPasses());
