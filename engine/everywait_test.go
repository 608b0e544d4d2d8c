package engine_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Something happens at each of the moments at which a daemon waits for a machine,
// its records, the repository or the status branch, while two machines are
// installed twice. What is not approved is not destroyed, nothing is destroyed
// twice, and both come to be as designed.
func TestProveEveryWait(t *testing.T) {
	for name, happens := range map[string]func(*trial){
		"the daemon dies":             (*trial).endsNow,
		"machines exchange addresses": (*trial).exchangesForAWhile,
		"disks are exchanged":         func(tr *trial) { exchangesDisks(tr, nil) },
		"a second daemon starts":      func(tr *trial) { tr.soon <- func() { isCopied(tr, nil) } },
		"a person takes an approval back": func(tr *trial) {
			tr.soon <- func() { tr.people.disapprove(context.Background(), tr.daemon, "", "n0a") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			every := 47
			if os.Getenv("SLIPWAY_PROVE") != "" {
				every = 1
			}
			waits := twiceInstalled(t, 0, nil)
			if waits < 500 {
				t.Fatalf("there are only %d waits", waits)
			}
			for at := 1 + int(time.Now().UnixNano())%every; at <= waits && !t.Failed(); at += every {
				twiceInstalled(t, at, happens)
			}
		})
	}
}

// twiceInstalled tells the story in which something happens at a wait, and says how
// many there were.
func twiceInstalled(t *testing.T, at int, happens func(*trial)) (waits int) {
	dir, err := os.MkdirTemp("", "wait")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		story := newTrial(1, dir, storyKey(t))
		story.board, story.key = &board{}, storyKey(t)
		waits = story.installsTwice(t.Context(), at, happens)
		if len(story.wrong) > 0 {
			t.Errorf("at wait %d: %s", at, story.ending(number("SLIPWAY_TRACE", 80)))
		}
	})
	return waits
}

// installsTwice is a story in which nothing else happens.
func (t *trial) installsTwice(ctx context.Context, at int, happens func(*trial)) (waits int) {
	t.began, t.soon = time.Now(), make(chan func(), 1)
	s := t.firstDesign()
	t.fleet = drivertest.NewFleet(quick)
	t.fleet.Watch(t.called)
	t.fleet.Witness(t.witnessed)
	s.Nodes, s.Roles, s.Racks, s.Windows, t.names = map[string]*site.Node{}, map[string]*site.Role{}, nil, nil, nil
	s.Rollout.MaxUnavailable, s.Rollout.FirstContact, s.Rollout.Canaries, s.Rollout.MaxFailures = "100%", "repair", nil, "100%"
	for _, name := range []string{"n0a", "n0b"} {
		m := t.fleet.Add(name)
		m.Made(withDisks("D-" + name))
		n := m.Node()
		n.Power, n.Image, n.Generation = "on", "debian", 1
		s.Nodes[name], t.names = n, append(t.names, name)
	}
	t.source.add(s, nil)
	t.up()
	life := t.daemon.life
	if happens != nil {
		life.at(at, func() { happens(t) })
	}
	t.wait(ctx, 2*time.Minute)
	approves(t, ctx)
	t.wait(ctx, 8*time.Minute)
	t.commit("installs again", func(s *site.Site) { s.Nodes["n0a"].Generation, s.Nodes["n0b"].Generation = 2, 2 })
	t.wait(ctx, 3*time.Minute)
	approves(t, ctx)
	t.wait(ctx, 8*time.Minute)
	waits = life.count()
	select {
	case happens := <-t.soon: // at the last wait: what it starts ends with the calm
		happens()
	default:
	}
	t.calm()
	t.recovers(ctx)
	t.stop()
	return waits
}

func (t *trial) endsNow() { t.daemon.life.end() }

func (t *trial) exchangesForAWhile() {
	t.exchange("n0a", "n0b")
	time.AfterFunc(3*time.Minute, t.unswap)
}
