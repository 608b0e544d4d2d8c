package watch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// errRefusal is one of the daemon's, with the command to run at its end.
var errRefusal = fmt.Errorf("%w: compute-1 is part of incident shell, and what could be read there may still be known: 2 secrets to replace, and %s "+
	"If people have done what has to be done, run `slipway release compute-1 --incident shell`", site.ErrRefused, strings.Join(site.IncidentLeftOver, " "))

// oneLine is the screen with its lines joined by single spaces.
func (v *view) oneLine() string { return strings.Join(strings.Fields(v.text()), " ") }

// A refusal is shown to its end, where the command is that helps.
func TestRefusalsAreShownToTheirEnd(t *testing.T) {
	v := opened(t, berlin())
	v.daemon.refuses = errRefusal
	v.keys("2", "l", "enter")
	v.golden("refused")
	if !strings.Contains(v.oneLine(), errRefusal.Error()) {
		t.Errorf("not shown whole:\n%s", v.text())
	}
	for _, size := range [][2]int{{40, 9}, {40, 12}, {80, 10}} {
		v.tell(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		text := v.text()
		if !strings.Contains(v.oneLine(), "`slipway release compute-1 --incident shell`") || !strings.Contains(text, "refused: ") || !strings.Contains(text, "\n…\n") {
			t.Errorf("%v: without the beginning, the end or a sign of the cut:\n%s", size, text)
		}
	}
	v.tell(tea.WindowSizeMsg{Width: 80, Height: 24})
	if v.keys("j"); strings.Contains(v.text(), "refused") {
		t.Errorf("stays after the next key:\n%s", v.text())
	}
}

// A question is sent only where the screen has room for a line of it and for what has to be typed.
func TestQuestionUnderAFullHead(t *testing.T) {
	r := compromised()
	r.Status.ObserveOnly, r.Status.Paused = "another daemon acts", &site.Hold{By: "ana", Reason: "storm"}
	for height := 1; height < 20; height++ {
		v := opened(t, r)
		v.tell(tea.WindowSizeMsg{Width: 60, Height: height})
		v.keys("P", "'x")
		v.read()
		prompted := strings.Contains(v.text(), "Reason (others will read it)")
		v.keys("enter")
		if sent := len(v.daemon.orders) > 0; sent && !prompted {
			t.Errorf("%d lines: sent from a screen without its prompt:\n%s", height, v.text())
		} else if !sent && height >= 16 {
			t.Errorf("%d lines: not sent:\n%s", height, v.text())
		}
	}
}

// What comes while a question is read takes none of its lines away unseen.
func TestRefusalWhileAQuestionIsRead(t *testing.T) {
	r := berlin()
	for i := range 30 {
		r.Status.Waiting = append(r.Status.Waiting, site.Loss{Node: fmt.Sprintf("n%03d", i), Action: "install", Lost: "all"})
	}
	v := opened(t, r).keys("A")
	v.read()
	v.tell(carried{err: errRefusal})
	if strings.Contains(v.text(), "n029") {
		t.Fatalf("the refusal takes no room:\n%s", v.text())
	}
	v.keys("'yes", "enter")
	if len(v.daemon.orders) > 0 || !strings.Contains(v.text(), "Read to the end") {
		t.Errorf("sent %v\n%s", v.daemon.orders, v.text())
	}
}

// An order without an answer may have been carried out: the view says that Slipway does not know, and where to look.
func TestOrdersWithoutAnAnswer(t *testing.T) {
	broken := &net.OpError{Op: "read", Net: "unix", Err: errors.New("connection reset by peer")}
	for _, err := range []error{
		fmt.Errorf("ask the daemon: %w", context.DeadlineExceeded),
		fmt.Errorf("ask the daemon: %w", broken),
		fmt.Errorf("%w: https://berlin: %w", control.ErrUnreachable, broken),
		errors.New("record approval: the disk is full"), // a 500: the daemon gives it no kind
		errors.New("read the daemon's answer: unexpected EOF"),
	} {
		v := opened(t, berlin())
		v.daemon.refuses = err
		v.keys("2", "x", "'smoke", "enter")
		for _, want := range []string{"Slipway does not know whether quarantine of compute-1 was carried out", "look at compute-1", "`slipway audit`", err.Error()} {
			if !strings.Contains(v.oneLine(), want) {
				t.Errorf("%v: no %q:\n%s", err, want, v.text())
			}
		}
	}
	v := opened(t, berlin())
	v.daemon.refuses = context.DeadlineExceeded
	v.keys("P", "'storm", "enter")
	if !strings.Contains(v.oneLine(), "whether pause of the whole site was carried out") || !strings.Contains(v.oneLine(), "look at its nodes") {
		t.Errorf("the whole site:\n%s", v.text())
	}
	v.golden("no-answer")
	for _, err := range []error{
		errRefusal,
		fmt.Errorf("%w: site berlin has no node \"x\"", site.ErrNotFound),
		fmt.Errorf("%w: not yours", access.ErrDenied),
		fmt.Errorf("%w: no reason", control.ErrBadRequest),
		fmt.Errorf("%w", control.ErrWhoAreYou),
		fmt.Errorf("%w", control.ErrTooMany),
		fmt.Errorf("%w listens on /run", control.ErrNoDaemon),
		fmt.Errorf("%w: https://berlin: %w", control.ErrUnreachable, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}),
	} {
		v := opened(t, berlin())
		v.daemon.refuses = err
		v.keys("P", "'storm", "enter")
		if strings.Contains(v.oneLine(), "does not know") || !strings.Contains(v.oneLine(), err.Error()) {
			t.Errorf("%v: an answer is shown as none:\n%s", err, v.text())
		}
	}
}
