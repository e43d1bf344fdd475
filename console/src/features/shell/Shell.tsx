// The frame around every screen.

import { type ReactNode, useEffect, useState } from "react";
import { useLocation } from "wouter";
import { useHotkeys } from "../../lib/hotkeys";
import { KeyHelp } from "./KeyHelp";
import { LiveBanner } from "./LiveBanner";
import { Palette } from "./Palette";
import { PAGES } from "./pages";
import { SideBar } from "./SideBar";
import "./shell.css";

export function Shell({ children }: { children: ReactNode }) {
  const [, navigate] = useLocation();
  const [open, setOpen] = useState<"palette" | "keys" | null>(null);
  useHotkeys([
    { keys: "?", run: () => setOpen("keys") },
    ...PAGES.filter((page) => page.keys).map((page) => ({ keys: page.keys ?? "", run: () => navigate(page.path) })),
  ]);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setOpen((now) => (now === "palette" ? null : "palette"));
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
  return (
    <div className="shell">
      <SideBar onSearch={() => setOpen("palette")} onKeys={() => setOpen("keys")} />
      <div className="shell-main">
        <LiveBanner />
        {children}
      </div>
      <Palette isOpen={open === "palette"} onClose={() => setOpen(null)} />
      <KeyHelp isOpen={open === "keys"} onClose={() => setOpen(null)} />
    </div>
  );
}
