import optimizeLocales from "@react-aria/optimize-locales-plugin";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const server = process.env.EVERSTEP_URL ?? "http://127.0.0.1:7373";

/** Few files for the first load: the modules that every page needs, and React, which changes seldom. */
const FIRST_LOAD = [
  { name: "react", test: /node_modules\/(react|react-dom|scheduler)\//, priority: 1 },
  { name: "first", tags: ["$initial" as const] },
];

export default defineConfig({
  plugins: [react(), { ...optimizeLocales.vite({ locales: ["en-US"] }), enforce: "pre" }],
  // The policy of the page forbids scripts and styles of data: URLs, so every asset is a file.
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    rolldownOptions: { output: { codeSplitting: { groups: FIRST_LOAD } } },
  },
  worker: { format: "es" },
  server: { proxy: { "/v1": { target: server, ws: true } } },
});
