// The entry of the console.

import { createRoot } from "react-dom/client";
import { loadLocale } from "./lib/i18n";
import { readPreference } from "./lib/preference";
import { applyTheme, themeStore } from "./lib/theme";
import { App } from "./routes/App";

const wanted = new URLSearchParams(window.location.search).get("locale") ?? readPreference("locale");

applyTheme(themeStore.get());
await loadLocale(wanted);
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
