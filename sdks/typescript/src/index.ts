// The entry point with the client and the runtime together.

export * from "./client.js";
export * from "./runtime.js";
