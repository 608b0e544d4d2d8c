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
	keep := len(os.Args) == 2 && os.Args[1] == "--keep"
	if len(os.Args) > 1 && !keep {
		fmt.Fprintln(os.Stderr, "usage: slipway-demo [--keep]\n\nPlays a whole site in a terminal, in about a minute. With --keep the site is\nleft running, to look around.")
		os.Exit(64)
	}
	os.Exit(play(ctx, keep))
}

// play runs the acts and gives the exit code.
func play(ctx context.Context, keep bool) int {
	show := newScreen(os.Stdout)
	s, err := open(show, keep)
	if err == nil {
		err = s.playAll(ctx)
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

func (s *stage) playAll(ctx context.Context) error {
	s.show.text("\n  A site of twelve machines, on this computer.\n" +
		"  Real: slipway, Git, the HTTPS of the BMCs and the SSH of the systems.\n" +
		"  Simulated: what is inside the machines, " + speed + " times as fast, and GitHub.\n")
	for i, a := range acts {
		s.show.title(i+1, a.name, a.shows)
		if err := a.play(ctx, s); err != nil {
			return fmt.Errorf("act %d (%s) failed: %w", i+1, a.name, errors.Join(err, s.deaths()))
		}
	}
	return nil
}
