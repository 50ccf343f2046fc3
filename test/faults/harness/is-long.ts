/** Whether the long forms are asked for, as by `npm run test:faults`: an hour or more in all. */
export const isLong = process.env["FAULTS_LONG"] === "1";
