import { describeAllocations } from "./allocations-contract.ts";
import { memorySubject, sqliteSubject } from "./subjects.ts";

describeAllocations("memory", memorySubject);
describeAllocations("sqlite", sqliteSubject);
