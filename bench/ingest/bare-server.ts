// The reference: uWebSockets.js reading the body and answering, nothing else.
import { reportUsageOnRequest } from "../lib/report-usage.ts";
import { App, us_socket_local_port } from "uWebSockets.js";

reportUsageOnRequest();
App()
  .any("/*", (response) => {
    response.onAborted(() => {});
    response.onData((_chunk, isLast) => {
      if (isLast) response.end('{"ok":true}');
    });
  })
  .listen("127.0.0.1", 0, (socket) => {
    process.send?.({ port: us_socket_local_port(socket) });
  });
