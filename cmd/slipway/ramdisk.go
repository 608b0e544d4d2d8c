package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/sinks/agent/ramdisk"
)

func (a *app) ramdiskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ramdisk", Short: "make the ramdisk that starts Slipway's agent", Args: knownCommand,
		Long: "The ramdisk is a Linux with only Slipway's agent, which a machine starts in memory. See\n" +
			"docs/ramdisk.md and docs/target.md.\n" + exitHelp,
		Example: "  slipway ramdisk build --out /srv/ramdisk",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.ramdiskBuildCommand())
	return cmd
}

func (a *app) ramdiskBuildCommand() *cobra.Command {
	var o ramdisk.Options
	var agents string
	cmd := &cobra.Command{
		Use: "build", Short: "make the ramdisk from packages of Debian", Args: exactly(0),
		Long: "Makes a unified kernel image, an archive of programs for disks, and an ISO with both,\n" +
			"for UEFI machines of amd64. Kernel, EFI stub and programs are Debian's. apt downloads\n" +
			"their packages as this host is configured, or --debs names a folder that has them. It\n" +
			"needs no root, and runs nothing from the packages. The same packages, agent and command\n" +
			"line give the same files.\n" + exitHelp,
		Example: "  slipway ramdisk build --out /srv/ramdisk\n" +
			"  slipway ramdisk build --debs packages --append \"slipway.ip=10.1.0.7/24 slipway.gateway=10.1.0.1\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Agent = filepath.Join(agents, "slipway-agent-linux-amd64")
			show, done := a.workProgress()
			defer done()
			o.Progress = show
			if err := os.MkdirAll(o.Out, 0o755); err != nil {
				return err
			}
			b, err := ramdisk.Build(cmd.Context(), o)
			if err != nil {
				return err
			}
			done()
			return a.tellBuilt(b)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Debs, "debs", "", "make it from the packages in this `FOLDER`, without apt")
	flags.StringVar(&o.Out, "out", ".", "the `FOLDER` that is written to")
	flags.StringVar(&o.Append, "append", "", "add `WORDS` to the kernel's command line")
	flags.StringVar(&agents, "agents", helperFolder(), "`FOLDER` with slipway-agent-linux-amd64 (SLIPWAY_AGENTS)")
	return cmd
}

func (a *app) tellBuilt(b *ramdisk.Built) error {
	if a.output == "json" {
		return a.out.JSON(b)
	}
	for _, p := range b.Packages {
		a.out.Printf("from  %s %s (sha256 %s)\n", p.Name, p.Version, shortDigest(p.SHA256))
	}
	a.out.Printf("with  Linux %s, %s, command line: %s\n", b.Kernel, say.Count(b.Modules, "module"), b.CommandLine)
	a.out.Printf("with  %s for disks of %s: %s\n", say.Count(len(b.Tools.Programs), "program"), say.Count(len(b.Tools.Packages), "package"), strings.Join(b.Tools.Programs, ", "))
	for _, f := range []ramdisk.File{b.Image, b.Tools.File, b.Medium} {
		a.out.Printf("%s  %s  %s\n", f.SHA256, artifact.Bytes(f.Bytes), f.Path)
	}
	return nil
}

// workProgress shows on a terminal what is being done and how far it is, until it is done.
func (a *app) workProgress() (show func(what string, have, of int64), done func()) {
	if !a.err.Terminal() {
		return func(string, int64, int64) {}, func() {}
	}
	const width = 30
	var last time.Time
	var before string
	show = func(what string, have, of int64) {
		now := time.Now()
		if what == before && now.Sub(last) < 100*time.Millisecond {
			return
		}
		last, before = now, what
		bar := ""
		if of > 0 {
			full := int(min(have, of) * width / of)
			bar = strings.Repeat("█", full) + strings.Repeat("░", width-full) + fmt.Sprintf(" %d %% ", min(have, of)*100/of)
		}
		a.err.Restart(bar + what)
	}
	return show, func() { a.err.Restart("") }
}
