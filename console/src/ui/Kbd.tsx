// A key of the keyboard.

export function Kbd({ keys }: { keys: string }) {
  return (
    <span className="row" style={{ gap: 3 }}>
      {keys.split(" ").map((key, index) => (
        <kbd key={index} className="ui-kbd">
          {key}
        </kbd>
      ))}
    </span>
  );
}
