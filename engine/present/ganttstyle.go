package present

// GanttStyle is the style of Gantt's picture, for a page's style sheet: its classes are below svg.gantt.
// Colours are those of Okabe and Ito, which people with any colour vision tell apart; each state has a
// shape as well.
const GanttStyle = ganttShapes + ganttLight + "@media screen and (prefers-color-scheme: dark) {" + ganttDark + "}\n"

const ganttShapes = `
svg.gantt { max-width: 100%; height: auto; }
svg.gantt text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
svg.gantt .title { font-size: 14px; font-weight: 600; }
svg.gantt .node { font-weight: 600; }
svg.gantt .mark { font-weight: 400; }
svg.gantt .nowlabel { font-weight: 600; }
svg.gantt .unknown { font-weight: 600; }
svg.gantt .grid { stroke-width: 1; stroke-opacity: .35; }
svg.gantt .now { stroke-width: 2; }
svg.gantt .expected { fill: none; stroke-width: 1.5; }
svg.gantt .expected.critical, svg.gantt .bar.critical { stroke-width: 3; }
svg.gantt .was { fill: none; stroke-width: 1; }
svg.gantt .window, svg.gantt .soak { fill-opacity: .7; }
svg.gantt .waits { stroke-width: 2; stroke-dasharray: 2 4; }
svg.gantt .bar.waiting { stroke-width: 1.5; stroke-dasharray: 3 3; fill-opacity: .25; }
svg.gantt .sign { stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg.gantt .sign.done, svg.gantt .sign.failed { fill: none; }
svg.gantt a:hover text { text-decoration: underline; }
`

const ganttLight = `
svg.gantt .paper { fill: #fff; }
svg.gantt text { fill: #1b1f24; }
svg.gantt .dim, svg.gantt .mark { fill: #57606a; }
svg.gantt .grid { stroke: #afb8c1; }
svg.gantt .now, svg.gantt .sign { stroke: #1b1f24; }
svg.gantt .window { fill: #fff1c2; }
svg.gantt .soak { fill: #e3d3ea; }
svg.gantt .bar.done { fill: #009e73; }
svg.gantt .bar.running { fill: #56b4e9; }
svg.gantt .bar.waiting { fill: #8c959f; stroke: #57606a; }
svg.gantt .bar.failed { fill: #d55e00; }
svg.gantt .bar.critical, svg.gantt .expected.critical { stroke: #1b1f24; }
svg.gantt .expected { stroke: #0072b2; }
svg.gantt .was { stroke: #6e7781; }
svg.gantt .waits { stroke: #57606a; }
svg.gantt .sign.running { fill: #0072b2; }
svg.gantt .sign.waiting { fill: #fff; }
svg.gantt .unknown { fill: #b35900; }
`

const ganttDark = `
svg.gantt .paper { fill: #0d1117; }
svg.gantt text { fill: #e6edf3; }
svg.gantt .dim, svg.gantt .mark { fill: #9da7b3; }
svg.gantt .grid { stroke: #3d444d; }
svg.gantt .now, svg.gantt .sign { stroke: #e6edf3; }
svg.gantt .window { fill: #3a3212; }
svg.gantt .soak { fill: #3b2a46; }
svg.gantt .bar.done { fill: #0b7a5b; }
svg.gantt .bar.running { fill: #1f6fa8; }
svg.gantt .bar.waiting { fill: #7d8590; stroke: #9da7b3; }
svg.gantt .bar.failed { fill: #c2550a; }
svg.gantt .bar.critical, svg.gantt .expected.critical { stroke: #e6edf3; }
svg.gantt .expected { stroke: #56b4e9; }
svg.gantt .was { stroke: #8b949e; }
svg.gantt .waits { stroke: #9da7b3; }
svg.gantt .sign.running { fill: #56b4e9; }
svg.gantt .sign.waiting { fill: #0d1117; }
svg.gantt .unknown { fill: #f0a35e; }
`
