/** Version of the program and of the API that it serves; equals the one in package.json (a test checks it). */
export const RELAY_VERSION = "0.1.0";
