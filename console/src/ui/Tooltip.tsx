// A short text about a control, on hover and on focus.

import type { ReactElement } from "react";
import { Tooltip as AriaTooltip, TooltipTrigger } from "react-aria-components";

const DELAY = 400;

export function Tooltip({ text, children }: { text: string; children: ReactElement }) {
  return (
    <TooltipTrigger delay={DELAY} closeDelay={0}>
      {children}
      <AriaTooltip className="ui-tooltip" offset={6}>
        {text}
      </AriaTooltip>
    </TooltipTrigger>
  );
}
