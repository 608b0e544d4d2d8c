// Command slipway-helper works inside an installed system, over SSH: it reads one
// request on its standard input, answers on its standard output, and exits. The
// daemon brings it and starts it; nobody else needs to.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
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
	digest := flag.String("digest", "", "refuse to run unless this is the program's own sha256")
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
	if err := serve(*digest, *root, !*offline, *first); err != nil {
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

func serve(digest, root string, live, first bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	// Caught and not ignored, since programs inherit what is ignored: a run goes on
	// when nobody listens any more.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := isWhole(digest); err != nil {
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

// isWhole compares the program with the digest that the daemon expects.
func isWhole(digest string) error {
	if digest == "" {
		return nil
	}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if is := hex.EncodeToString(h.Sum(nil)); is != digest {
		return fmt.Errorf("damaged: its digest is %s and not %s", is, digest)
	}
	return nil
}
