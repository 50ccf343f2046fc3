import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");

/** Frees what is no longer referenced, so that what remains is what the process needs. */
export const collectGarbage = runInNewContext("gc") as () => void;
