// A part of a list that is pressed as a whole: with a click, Enter or Space.

import type { KeyboardEvent, ReactNode } from "react";

interface PressableProps {
  className: string;
  onPress: () => void;
  isCurrent?: boolean;
  children: ReactNode;
}

export function Pressable({ className, onPress, isCurrent, children }: PressableProps) {
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onPress();
  };
  return (
    <div
      role="button"
      tabIndex={0}
      aria-current={isCurrent ? "true" : undefined}
      className={className}
      onClick={onPress}
      onKeyDown={onKeyDown}
    >
      {children}
    </div>
  );
}
