package present

// ElevationStyle is the style of the pictures of racks, light or dark as the reader's
// screen is. A page adds it to its style sheet.
const ElevationStyle = rackShapes + rackLight + "@media screen and (prefers-color-scheme: dark) {" + rackDark + "}\n"

// MergingStyle is added to ElevationStyle where pictures show what merging does. Most pages and files have none of these.
const MergingStyle = `
.rackshape.m-spared { --rack-state: var(--rack-good); }
.rackshape.m-changed { --rack-state: var(--rack-work); }
.rackshape.m-may-restart, .rackshape.m-interrupted { --rack-state: var(--rack-again); }
.rackshape.m-out-of-service { --rack-state: var(--rack-wait); }
.rackshape.m-erased { --rack-state: var(--rack-bad); }
.rackshape.m-removed { --rack-state: var(--rack-odd); }
.rackshape.m-unknown, .rackshape.m-pending-anyway, .rackshape.m-untouched { --rack-state: var(--rack-grey); }
.rackshape.m-erased .box { stroke-width: 2; }
.rackshape.m-removed .box { stroke-dasharray: 6 2; }
.rackshape.m-unknown .box { stroke-dasharray: 3 2; }
.rackshape.m-changed .sign, .rackshape.m-removed .sign, .rackshape.m-interrupted .sign { fill: var(--rack-sign); }
svg.rack .m-erased .mark, svg.rack .m-removed .mark, svg.rack .m-out-of-service .mark { fill: var(--rack-text); font-weight: 600; }
`

// What is in a shape that pictures share is styled by that shape alone, and not by what uses it; what it inherits is of
// the user.
const rackShapes = `
svg.rack { max-width: 100%; height: auto; align-self: start; font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
svg.rack text { fill: var(--rack-text); }
svg.rack .name { font-size: 13px; font-weight: 600; }
svg.rack .dim, svg.rack .mark { font-size: 9.5px; fill: var(--rack-dim); }
svg.rack .small { font-size: 9.5px; }
svg.rack .paper { fill: var(--rack-paper); }
.rackshape .unit { font-size: 9.5px; fill: var(--rack-dim); text-anchor: end; }
.rackshape .frame { fill: var(--rack-inside); stroke: var(--rack-line); }
.rackshape .slots { stroke: var(--rack-line); stroke-opacity: .4; stroke-dasharray: 1 3; }
.rackshape .box { fill: var(--rack-box); stroke: var(--rack-state); stroke-width: var(--rack-edge, 1); }
.rackshape .badge { fill: var(--rack-state); }
.rackshape .sign { fill: none; stroke: var(--rack-sign); stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; }
.rackshape.progressing .sign, .rackshape.blocked .sign, .rackshape.foreign .sign { fill: var(--rack-sign); }
.rackshape.unknown .box { stroke-dasharray: 3 2; }
.rackshape.unseen .box { fill: none; stroke-dasharray: 3 2; }
.rackshape.in-sync { --rack-state: var(--rack-good); }
.rackshape.progressing { --rack-state: var(--rack-work); }
.rackshape.retrying { --rack-state: var(--rack-again); }
.rackshape.blocked { --rack-state: var(--rack-wait); }
.rackshape.stalled { --rack-state: var(--rack-bad); }
.rackshape.foreign { --rack-state: var(--rack-odd); }
.rackshape.paused, .rackshape.unknown { --rack-state: var(--rack-grey); }
svg.rack .alert { fill: none; stroke: var(--rack-alert); stroke-width: 1.3; stroke-linejoin: round; }
svg.rack .stalled .mark, svg.rack .foreign .mark, svg.rack .blocked .mark { fill: var(--rack-text); font-weight: 600; }
svg.rack .other { opacity: .3; }
svg.rack a:hover, svg.rack a:focus-visible { --rack-edge: 2.5; }
`

const rackLight = `
svg.rack {
  --rack-text: #1b1f24; --rack-dim: #57606a; --rack-paper: #fff; --rack-inside: #f0f2f4; --rack-line: #8c959f;
  --rack-box: #fff; --rack-sign: #fff; --rack-alert: #b35900;
  --rack-good: #00795a; --rack-work: #0072b2; --rack-again: #00708a; --rack-wait: #a85b00; --rack-bad: #b3261e;
  --rack-odd: #8e3b73; --rack-grey: #57606a;
}
`

const rackDark = `
svg.rack {
  --rack-text: #e6edf3; --rack-dim: #9aa4af; --rack-paper: #0d1117; --rack-inside: #161b22; --rack-line: #6e7781;
  --rack-box: #21262d; --rack-sign: #0d1117; --rack-alert: #ffb454;
  --rack-good: #2bbf95; --rack-work: #58b0f0; --rack-again: #4fc3d9; --rack-wait: #e69f00; --rack-bad: #ff7b6b;
  --rack-odd: #d99ac4; --rack-grey: #9aa4af;
}
`
