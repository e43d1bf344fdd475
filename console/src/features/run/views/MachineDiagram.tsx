// The states of a machine, each with the moves that lead from it to others, and arcs between the states.

import { useLayoutEffect, useMemo, useRef, useState } from "react";
import { t } from "../../../lib/i18n";
import { Button, Icon, type IconName, Link, Tag } from "../../../ui";
import { type Arc, arcsOf, type Slot } from "../model/machineArcs";
import type { MachineMove, MachineState } from "../model/machineModel";
import "./machine.css";

const ICONS: Record<MachineMove["kind"], IconName> = { action: "arrowRight", timer: "clock", run: "workflow" };

const LANE_WIDTH = 10;
/** Between the innermost lane and the states. */
const LANE_SPACE = 14;
/** Between two ends of arcs at one state. */
const SLOT_HEIGHT = 9;
const RADIUS = 6;

interface MachineDiagramProps {
  states: readonly MachineState[];
  /** The address of the runs in a state. */
  runsIn: (state: string) => string;
}

export function MachineDiagram({ states, runsIn }: MachineDiagramProps) {
  const list = useRef<HTMLOListElement>(null);
  const cards = useRef(new Map<string, HTMLDivElement>());
  const [centres, setCentres] = useState<readonly number[]>([]);
  /** The state that was pressed, and the one under the pointer: its arcs stand out. */
  const [shown, setShown] = useState<string | null>(null);
  const [hovered, setHovered] = useState<string | null>(null);
  const arcs = useMemo(() => arcsOf(states), [states]);
  const titles = new Map(states.map((state) => [state.name, state.title]));
  const gutter = arcs.length === 0 ? 0 : LANE_SPACE + LANE_WIDTH * (1 + Math.max(...arcs.map((arc) => arc.lane)));
  useLayoutEffect(() => {
    const element = list.current;
    if (element === null) return;
    const measure = () => {
      const { top } = element.getBoundingClientRect();
      setCentres(
        states.map((state) => {
          const box = cards.current.get(state.name)?.getBoundingClientRect();
          return box ? box.top - top + box.height / 2 : 0;
        }),
      );
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [states]);
  const show = (name: string) => {
    setShown(name);
    cards.current.get(name)?.scrollIntoView({ block: "nearest" });
  };
  const marked = hovered ?? shown;
  return (
    <div className="ui-scroll">
      <div className="diagram" style={{ paddingLeft: gutter }}>
        <Arcs arcs={arcs} centres={centres} gutter={gutter} marked={states.findIndex(({ name }) => name === marked)} />
        <ol ref={list} aria-label={t("machine.states")}>
          {states.map((state) => (
            <li
              key={state.name}
              className={state.name === shown ? "diagram-row shown" : "diagram-row"}
              onPointerEnter={() => setHovered(state.name)}
              onPointerLeave={() => setHovered(null)}
            >
              <div
                ref={(element) => {
                  if (element) cards.current.set(state.name, element);
                }}
                className={`diagram-state ${kindOf(state)}`}
              >
                <StateCard state={state} href={runsIn(state.name)} />
              </div>
              <ul className="diagram-moves">
                {state.moves.map((move, index) => (
                  <Move key={index} move={move} titles={titles} onShow={show} />
                ))}
                {state.moves.length === 0 && (
                  <li className="diagram-move faint">{state.isTerminal ? t("machine.ends") : t("machine.noMoves")}</li>
                )}
              </ul>
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}

interface ArcsProps {
  arcs: readonly Arc[];
  /** The middle of each state, from above. */
  centres: readonly number[];
  gutter: number;
  /** The state whose arcs stand out; -1 for none. */
  marked: number;
}

function Arcs({ arcs, centres, gutter, marked }: ArcsProps) {
  const at = (state: number, slot: Slot) => (centres[state] ?? 0) + (slot.index - (slot.count - 1) / 2) * SLOT_HEIGHT;
  // Arcs that stand out are drawn over the others.
  const isMarked = (arc: Arc) => arc.from === marked || arc.to === marked;
  const sorted = [...arcs].sort((a, b) => Number(isMarked(a)) - Number(isMarked(b)));
  return (
    <svg className="diagram-arcs" width={gutter} aria-hidden="true">
      {sorted.map((arc) => {
        const [begin, end] = [at(arc.from, arc.begin), at(arc.to, arc.end)];
        const lane = gutter - LANE_SPACE - LANE_WIDTH * arc.lane;
        const [left, turn] = [lane - RADIUS, end > begin ? RADIUS : -RADIUS];
        const line = `M${gutter},${begin}H${lane}Q${left},${begin} ${left},${begin + turn}V${end - turn}Q${left},${end} ${lane},${end}H${gutter - 2}`;
        const tip = `M${gutter - 6},${end - 4}L${gutter - 1},${end}L${gutter - 6},${end + 4}`;
        return (
          <path
            key={`${arc.from} ${arc.to}`}
            d={line + tip}
            className={arc.from === marked ? "leaves" : arc.to === marked ? "enters" : undefined}
          />
        );
      })}
    </svg>
  );
}

function kindOf(state: MachineState): string {
  if (state.isError) return "is-failed";
  if (state.isTerminal) return "is-completed";
  return state.isInitial ? "is-running" : "";
}

function StateCard({ state, href }: { state: MachineState; href: string }) {
  return (
    <>
      <span className="row">
        <b className="cut grow" title={state.title}>
          {state.title}
        </b>
        {state.isInitial && <Tag>{t("machine.initial")}</Tag>}
        {state.isTerminal && <Tag>{state.isError ? t("machine.failedEnd") : t("machine.terminal")}</Tag>}
      </span>
      {state.description && <span className="diagram-about muted">{state.description}</span>}
      <span className="row">
        <code className="cut faint grow">{state.name}</code>
        <Link href={href} label={t("machine.runsIn", { state: state.title })}>
          {t("nav.runs")}
        </Link>
      </span>
    </>
  );
}

interface MoveProps {
  move: MachineMove;
  titles: ReadonlyMap<string, string>;
  onShow: (state: string) => void;
}

function Move({ move, titles, onShow }: MoveProps) {
  const conditions = [
    move.isForAssigned && t("machine.forAssigned"),
    move.votes !== null && t("machine.needsVotes", { need: move.votes }),
    move.needsComment && t("machine.needsComment"),
    move.needsData.length > 0 && t("machine.needsData", { paths: move.needsData.join(", ") }),
  ].filter((text) => text !== false);
  return (
    <li className={`diagram-move is-${move.kind}`}>
      <span className="diagram-label">
        <Icon name={ICONS[move.kind]} size={14} />
        <span className="cut" title={move.label}>
          {labelOf(move)}
        </span>
      </span>
      <span className="row wrap">
        {move.to.map((name) => (
          <Button key={name} size="small" onPress={() => onShow(name)}>
            {titles.get(name) ?? name}
          </Button>
        ))}
        {move.to.length === 0 && <span className="faint">{t("machine.stays")}</span>}
      </span>
      <span className="muted">{conditions.join(" · ")}</span>
    </li>
  );
}

function labelOf(move: MachineMove): string {
  switch (move.kind) {
    case "action":
      return move.label;
    case "timer":
      return t("machine.after", { time: move.label });
    case "run":
      return t("machine.runs", { workflow: move.label });
  }
}
