/** Where webhooks come in: behind it stands the endpoint's token. */
export const INGEST_PATH = "/in/";
