// Lines of a log, with a search, an order, and a button that copies them.

import { useDeferredValue, useMemo, useState } from "react";
import { t } from "../../../lib/i18n";
import { formatAbsolute, formatClock, toMs } from "../../../lib/time";
import { Button, CopyButton, Empty, Segmented, TextField } from "../../../ui";
import { LogText } from "./LogText";

type Order = "oldest" | "newest";
/** Lines that are drawn at first, and that each press of the button adds. */
const LINES_PAGE = 2_000;

export interface ShownLine {
  line: string;
  /** Where it comes from; null in the panel of a step, which says so itself. */
  source: { step: string; attempt: number; at: string } | null;
}

export interface MoreLines {
  load: () => void;
  isLoading: boolean;
}

interface LogLinesProps {
  lines: readonly ShownLine[];
  /** How to load the lines after these; null if all are loaded. */
  more?: MoreLines | null;
  isCompact?: boolean;
}

export function LogLines({ lines, more = null, isCompact = false }: LogLinesProps) {
  const [text, setText] = useState("");
  const [order, setOrder] = useState<Order>("oldest");
  const [pages, setPages] = useState(1);
  const needle = useDeferredValue(text).trim().toLowerCase();
  const found = useMemo(() => {
    const matching = lines.filter(({ line }) => needle === "" || line.toLowerCase().includes(needle));
    return order === "oldest" ? matching : matching.reverse();
  }, [lines, needle, order]);
  const shown = pages * LINES_PAGE;
  return (
    <>
      <div className={isCompact ? "run-bar compact" : "run-bar"}>
        <div className="run-search">
          <TextField
            label={t("logs.search")}
            isLabelHidden
            icon="search"
            type="search"
            placeholder={t("logs.search")}
            value={text}
            onChange={setText}
          />
        </div>
        <Segmented
          label={t("logs.order")}
          options={[
            { id: "oldest", label: t("logs.oldest") },
            { id: "newest", label: t("logs.newest") },
          ]}
          value={order}
          onChange={setOrder}
        />
        <span className="faint">{t("logs.count", { n: found.length })}</span>
        <span className="grow" />
        <CopyButton text={() => found.map(({ line }) => line).join("\n")} label={t("logs.copy")} />
      </div>
      {found.length === 0 ? (
        <>
          <NoLines isCompact={isCompact} />
          {more && (
            <div className="run-bar">
              <More more={more} />
            </div>
          )}
        </>
      ) : (
        <ol className={isCompact ? "logs compact" : "logs"}>
          {found.slice(0, shown).map((one, index) => (
            <li key={index}>
              {one.source && <Source {...one.source} />}
              <LogText text={one.line} />
            </li>
          ))}
          {found.length > shown ? (
            <li className="logs-more">
              <span className="muted">{t("logs.part", { shown, all: found.length })}</span>
              <More more={{ load: () => setPages(pages + 1), isLoading: false }} />
            </li>
          ) : (
            more && (
              <li className="logs-more">
                <More more={more} />
              </li>
            )
          )}
        </ol>
      )}
    </>
  );
}

/** The one button that continues the list: it draws the lines that are loaded, then it loads others. */
function More({ more }: { more: MoreLines }) {
  return (
    <Button size="small" onPress={more.load} isPending={more.isLoading}>
      {t("ui.more")}
    </Button>
  );
}

function NoLines({ isCompact }: { isCompact: boolean }) {
  if (isCompact) return <p className="faint">{t("logs.none")}</p>;
  return (
    <Empty icon="runs" title={t("logs.none")}>
      {t("logs.noneText")}
    </Empty>
  );
}

function Source({ step, attempt, at }: { step: string; attempt: number; at: string }) {
  return (
    <>
      <time dateTime={at} title={formatAbsolute(toMs(at))}>
        {formatClock(toMs(at), true)}
      </time>
      <span className="logs-step cut" title={`${step} #${attempt}`}>
        {step}
        {attempt > 1 && ` #${attempt}`}
      </span>
    </>
  );
}
