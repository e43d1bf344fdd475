// The entry point with the client and the runtime together.

import "./node-version.js";

export * from "./client.js";
export * from "./runtime.js";
