/** Path of incoming webhooks; the endpoint's token follows it. */
export const INGEST_PATH = "/in/";
