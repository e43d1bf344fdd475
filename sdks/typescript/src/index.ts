// Everything: the client and the runtime.

export * from "./client.js";
export * from "./runtime.js";
