/** Version of the program, not of the API that it serves (`api/openapi.ts`); equals the one in package.json (a test checks it). */
export const RELAY_VERSION = "0.1.0";
