// Command slipway-helper works inside an installed system, over SSH: it reads one
// request on its standard input, answers on its standard output, and exits. The
// daemon brings it and starts it; nobody else needs to.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/actions"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/base"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/config"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/hardware"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/kernel"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/links"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/network"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/packages"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/probe"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/report"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// facets are those that the program serves, by name.
var facets = map[string]inside.Facet{
	"base":     base.New(),
	"network":  network.New(),
	"packages": packages.New(),
	"config":   config.New(),
	"kernel":   kernel.New(),
	"actions":  actions.New(packages.New(), config.New()),
}

func main() {
	checksum := flag.String("checksum", "", "refuse to run unless this is the program's own checksum")
	root := flag.String("root", "/", "folder with the file system of the system")
	first := flag.Bool("report", false, "report on the system itself before the answer")
	offline := flag.Bool("offline", false, "the system's services do not run: write files alone")
	flag.Parse()
	if flag.Arg(0) == "revert" {
		if err := network.Revert(context.Background(), inside.Real(*root, !*offline), flag.Arg(1)); err != nil {
			fmt.Fprintln(os.Stderr, "slipway-helper:", err)
			os.Exit(1)
		}
		return
	}
	if flag.Arg(0) == "action" {
		if err := action(inside.Real(*root, !*offline), flag.Arg(1), flag.Arg(2)); err != nil {
			fmt.Fprintln(os.Stderr, "slipway-helper:", err)
			os.Exit(1)
		}
		return
	}
	if err := serve(*checksum, *root, !*offline, *first); err != nil {
		fmt.Fprintln(os.Stderr, "slipway-helper:", err)
		os.Exit(1)
	}
}

// action runs the command of a boot action as its unit does. It is stopped by SIGTERM.
func action(h *inside.Host, name, attempt string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	n, err := strconv.Atoi(attempt)
	if err != nil {
		return err
	}
	return actions.Run(ctx, h, name, n, os.Stdout)
}

func serve(checksum, root string, live, first bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	// Caught and not ignored, since programs inherit what is ignored: a run goes on
	// when nobody listens any more.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := isWhole(checksum); err != nil {
		return err
	}
	host := inside.Real(root, live)
	host.Login = cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("LOGNAME"), os.Getenv("USER"))
	if first {
		if err := report.Print(ctx, os.Stdout, host); err != nil {
			return err
		}
		if _, err := os.Stdout.WriteString("\n" + wire.Answers); err != nil {
			return err
		}
	}
	p := run.Program{Host: host, Facets: facets, Probe: probe.Look, Links: links.Look, Hardware: hardware.Look}
	return p.Answer(ctx, os.Stdin, os.Stdout)
}

// isWhole compares the program with the checksum that the daemon expects.
func isWhole(checksum string) error {
	if checksum == "" {
		return nil
	}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// Mapped, the file is not copied. It cannot become shorter while it runs.
	content, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_POPULATE)
	if err != nil {
		return err
	}
	if is := wire.Checksum(content); is != checksum {
		return fmt.Errorf("damaged: its checksum is %s and not %s", is, checksum)
	}
	return syscall.Munmap(content)
}
