// The slider over the entries of a run.

import type { KeyboardEvent } from "react";
import { useHotkeys } from "../../../lib/hotkeys";
import { t } from "../../../lib/i18n";
import { formatClock } from "../../../lib/time";
import { Button, Kbd, Slider, Status } from "../../../ui";
import { statusOf } from "../model/fold";
import { useRunPart, useRunStore } from "../runContext";

const FAR = 10;

export function TimeTravel({ onAt }: { onAt: (seq: number | null) => void }) {
  const { model } = useRunStore();
  const at = useRunPart((view) => view.at);
  const last = useRunPart((view) => view.last);
  const seq = useRunPart((view) => view.fold.run.seq);
  const time = useRunPart((view) => view.fold.run.at);
  const status = useRunPart((view) => statusOf(view.fold));
  const here = at ?? last;
  const go = (next: number) => onAt(next >= last ? null : Math.max(1, next));
  useHotkeys([
    { keys: "ArrowLeft", run: () => go(here - 1) },
    { keys: "ArrowRight", run: () => go(here + 1) },
    { keys: "Shift+ArrowLeft", run: () => go(here - FAR) },
    { keys: "Shift+ArrowRight", run: () => go(here + FAR) },
    { keys: "Home", run: () => go(1) },
    { keys: "End", run: () => onAt(null) },
    { keys: "l", run: () => onAt(null) },
    { keys: "L", run: () => onAt(null) },
  ]);
  if (last < 2) return null;
  const event = model.all()[here - 1]?.event ?? "";
  const onKeyDown = (event: KeyboardEvent) => {
    if (!event.shiftKey) return;
    const step = event.key === "ArrowLeft" ? -FAR : event.key === "ArrowRight" ? FAR : 0;
    if (step === 0) return;
    event.preventDefault();
    event.stopPropagation();
    go(here + step);
  };
  return (
    <div
      className={at === null ? "travel" : "travel past"}
      onKeyDownCapture={onKeyDown}
      role="group"
      aria-label={t("travel.label")}
    >
      <Button icon="chevronLeft" size="small" tone="ghost" label={t("travel.back")} onPress={() => go(here - 1)} />
      <Button icon="chevronRight" size="small" tone="ghost" label={t("travel.forward")} onPress={() => go(here + 1)} />
      <Slider label={t("travel.label")} min={1} max={last} value={here} onChange={go} />
      <span className="travel-where">
        <span className="mono">
          {seq} / {last}
        </span>
        <span className="cut muted" title={event}>
          {event}
        </span>
        {time !== null && <span className="mono faint">{formatClock(time, true)}</span>}
      </span>
      {at === null ? (
        <span className="travel-live">
          <i /> {t("travel.live")}
        </span>
      ) : (
        <>
          <Status status={status} />
          <Button size="small" tone="primary" onPress={() => onAt(null)}>
            {t("travel.toLive")} <Kbd keys="L" />
          </Button>
        </>
      )}
    </div>
  );
}
