// Command slipway-demo plays a whole site in a terminal: the real slipway, a
// real Git repository, and a simulated fleet in place of the machines. What it
// prints is what those programs answered. It ends by itself and leaves nothing
// behind, unless it is asked to keep the site running.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The processes that are started die with the thread that started them, so
// that thread has to last: it is the main one.
func init() { runtime.LockOSThread() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	p, keep, page := &fleet, false, noPage
	switch arguments := os.Args[1:]; {
	case slices.Equal(arguments, []string{"--keep"}):
		keep = true
	case slices.Equal(arguments, []string{"--web"}):
		keep, page = true, watched
	case slices.Equal(arguments, []string{"--web", "--approve"}):
		keep, page = true, approved
	case slices.Equal(arguments, []string{"--libvirt"}):
		p = &virtual
	case slices.Equal(arguments, []string{"--install"}):
		if p = &blank; os.Getenv(inNetwork) == "" {
			os.Exit(inOwnNetwork(ctx))
		}
	case len(arguments) > 0:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(64)
	}
	os.Exit(p.run(ctx, keep, page))
}

const usage = `usage: slipway-demo [--keep | --web [--approve] | --libvirt | --install]

Plays a whole site in a terminal, in about a minute. With --keep the site is left running, to look around.
--web does the same and opens its page at the start, so that you see all of it in your browser; with
--approve too, it waits until you approve there what a person has to. With --libvirt it is a site of virtual
machines, on a libvirt of its own, which takes about four minutes and wants root. With --install it is two
blank servers, emulated by QEMU, that are installed, which takes half an hour and wants root.`

// page is what the page of the site is for.
type page int

const (
	noPage   page = iota
	watched       // people follow in it what happens
	approved      // they also approve in it
)

// play is what is shown: a stage, and the acts on it.
type play struct {
	open  func(*screen, bool) (*stage, error)
	intro string
	acts  []act
}

var fleet = play{openFleet, "\n  A site of twelve machines, on this computer.\n" +
	"  Real: slipway, Git, the HTTPS of the BMCs and the SSH of the systems.\n" +
	"  Simulated: what is inside the machines, " + speed + " times as fast, and GitHub.\n", acts}

// run runs the acts and gives the exit code.
func (p *play) run(ctx context.Context, keep bool, opened page) int {
	show := newScreen(os.Stdout)
	show.text(p.intro)
	s, err := p.open(show, keep)
	if err == nil {
		s.opened = opened
		err = s.playAll(ctx, p.acts)
	}
	if err == nil && keep {
		err = s.leaveForge()
	}
	show.still()
	switch {
	case err == nil && keep:
		s.leaveRunning()
	case err == nil:
		s.close()
	case ctx.Err() != nil:
		s.close()
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted; nothing is left behind")
		return 130
	default:
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n%s", err, s.lastLogs())
		s.close()
		return 1
	}
	fmt.Printf("\ndemo: %d/%d nodes in-sync, %d status commits, %.0f s\n",
		s.last.Counts()[site.InSync], len(s.last.Nodes), s.commits, time.Since(show.start).Seconds())
	return 0
}

func (s *stage) playAll(ctx context.Context, acts []act) error {
	for i, a := range acts {
		s.show.title(i+1, a.name, a.shows)
		if err := a.play(ctx, s); err != nil {
			return fmt.Errorf("act %d (%s) failed: %w", i+1, a.name, errors.Join(err, s.deaths()))
		}
	}
	return nil
}
