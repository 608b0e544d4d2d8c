package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// square is where people talk: a forge, the daemon's orders and its memory.
type square struct {
	t         *testing.T
	mu        sync.Mutex // held by listings, and by who changes something meanwhile
	proposals map[int]site.Proposal
	comments  []forge.Comment
	rights    map[string]forge.Permission
	away      error  // of all requests
	deaf      error  // of reactions
	refuses   error  // of approvals
	forgets   error  // of the memory
	denied    int64  // the comment that takes no answer
	broken    string // whose permission nobody knows
	memory    []byte

	reactions []string
	replies   []string
	orders    []string
	asked     int
}

var (
	_ forge.Proposals = (*square)(nil)
	_ forge.Comments  = (*square)(nil)
	_ forge.Talk      = (*square)(nil)
	_ forge.People    = (*square)(nil)
)

// digest is that of a set.
var digest = strings.Repeat("00112233445566ff", 4)[:site.DigestDigits]

const forkHead = "0123456789abcdef0123456789abcdef01234567"

func newSquare(t *testing.T) *square {
	return &square{t: t, proposals: map[int]site.Proposal{
		1: {Number: 1, State: site.ProposalOpen, Base: "main", Head: strings.Repeat("a", 40)},
		2: {Number: 2, State: site.ProposalOpen, Base: "main", Head: forkHead, Fork: true},
		3: {Number: 3, State: site.ProposalMerged, Base: "main", Head: strings.Repeat("c", 40)},
		4: {Number: 4, State: site.ProposalOpen, Base: "other", Head: strings.Repeat("d", 40)},
	}, rights: map[string]forge.Permission{"ada": forge.Write, "root": forge.Admin, "ben": forge.Read}}
}

func (s *square) Open(context.Context, string) ([]site.Proposal, error) {
	return slices.Collect(maps.Values(s.proposals)), s.away
}

func (s *square) Proposal(_ context.Context, number int) (site.Proposal, error) {
	p, ok := s.proposals[number]
	if !ok {
		return p, fmt.Errorf("proposal %d: %w", number, forge.ErrGone)
	}
	return p, s.away
}

func (s *square) Decision(context.Context, int) (site.Decision, error) {
	s.t.Error("a listener does not ask who has merged")
	return site.Decision{}, nil
}

func (s *square) looks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *square) CommentsSince(_ context.Context, since time.Time) (some []forge.Comment, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for _, c := range s.comments {
		if !latest(c.Written, c.Changed).Before(since) {
			some = append(some, c)
		}
	}
	return some, s.away
}

func (s *square) Keep(_ context.Context, number int, id int64, m forge.Marker, body string) (*forge.Kept, forge.Kept, error) {
	if err := errors.Join(s.away, s.deaf); err != nil {
		return nil, forge.Kept{}, err
	}
	if id != 0 || m.Site != "" || !strings.HasPrefix(m.Kind, "reply-") {
		s.t.Errorf("a listener writes comment %d, %v", id, m)
	}
	s.replies = append(s.replies, fmt.Sprintf("%d %s: %s", number, strings.TrimPrefix(m.Kind, "reply-"), body))
	return nil, forge.Kept{ID: 1, Body: body}, nil
}

func (s *square) Kept(context.Context, int, int64, forge.Marker) (forge.Kept, error) {
	s.t.Error("a listener reads no comment of ours")
	return forge.Kept{}, nil
}

func (s *square) React(_ context.Context, comment int64, r forge.Reaction) error {
	if err := errors.Join(s.away, s.deaf); err != nil {
		return err
	}
	if comment == s.denied {
		return fmt.Errorf("answer comment %d: %w", comment, forge.ErrDenied)
	}
	s.reactions = append(s.reactions, fmt.Sprintf("%d %s", comment, r))
	return nil
}

func (s *square) Permission(_ context.Context, login string) (forge.Permission, error) {
	if s.broken != "" && login == s.broken {
		return forge.None, fmt.Errorf("permission of %s: %w", login, forge.ErrDenied)
	}
	return s.rights[login], s.away
}

func (s *square) Plan(number int) { s.orders = append(s.orders, fmt.Sprint("plan ", number)) }

func (s *square) Approve(_ context.Context, digest string, by site.ApprovalSource) error {
	return s.order("approve", digest, by)
}

func (s *square) Disapprove(_ context.Context, digest string, by site.ApprovalSource) error {
	return s.order("disapprove", digest, by)
}

func (s *square) order(what, digest string, by site.ApprovalSource) error {
	if s.refuses == nil {
		s.orders = append(s.orders, fmt.Sprintf("%s %s for %s", what, digest, by))
	}
	return s.refuses
}

func (s *square) Allow(_ context.Context, number int, head, by string) error {
	s.orders = append(s.orders, fmt.Sprintf("allow %s for %s on %d", head, by, number))
	return nil
}

func (s *square) PutMessage(_ context.Context, key string, value []byte) error {
	if s.forgets == nil && key == heardKey {
		s.memory = value
	}
	return s.forgets
}

func (s *square) Messages(context.Context) (map[string][]byte, error) {
	return map[string][]byte{heardKey: s.memory, keyPrefix + "1": []byte("a wish")}, nil
}

// say writes a comment, whose number is 1 for the first.
func (s *square) say(number int, who, body string) *forge.Comment {
	id := int64(len(s.comments) + 1)
	s.comments = append(s.comments, forge.Comment{ID: id, Number: number, Author: who, Body: body, Written: time.Now(), URL: fmt.Sprint("https://forge.example/c/", id)})
	return &s.comments[len(s.comments)-1]
}

func (s *square) listener() *Listener {
	l := NewListener(ListenerConfig{
		Base: "main", Proposals: s, Comments: s, Talk: s, People: s, Orders: s, Outbox: s,
		Every: func() time.Duration { return time.Minute }, Problem: func(error) {}, Log: slog.New(slog.DiscardHandler),
	})
	if err := l.recall(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return l
}

// did compares what was ordered and answered since the last time.
func (s *square) did(orders, reactions string) {
	s.t.Helper()
	if got := strings.Join(s.orders, ", "); got != orders {
		s.t.Errorf("ordered %q, want %q", got, orders)
	}
	if got := strings.Join(s.reactions, ", "); got != reactions {
		s.t.Errorf("answered %q, want %q", got, reactions)
	}
	s.orders, s.reactions = nil, nil
}

func TestCommandsAreCarriedOutAndAnswered(t *testing.T) {
	for _, c := range []struct {
		name, who, body   string
		number            int
		orders, reactions string
	}{
		{"plan", "ada", "/slipway plan\nplease", 1, "plan 1", "1 seen"},
		{"plan what is merged", "ada", "/slipway plan", 3, "", "1 refused"},
		{"approve", "root", "/slipway approve " + digest, 1, "approve " + digest + " for root, comment 1 on pull request 1", "1 done"},
		{"approve what a merge left", "ada", "/slipway approve " + digest, 3, "approve " + digest + " for ada, comment 1 on pull request 3", "1 done"},
		{"allow a fork", "ada", "/slipway approve " + forkHead, 2, "allow " + forkHead + " for ada on 2", "1 seen"},
		{"a fork that has moved", "ada", "/slipway approve " + strings.Repeat("e", 40), 2, "", "1 refused"},
		{"a fork by the beginning of its commit", "ada", "/slipway approve " + forkHead[:site.DigestDigits], 2, "approve " + forkHead[:site.DigestDigits] + " for ada, comment 1 on pull request 2", "1 done"},
		{"take back", "ada", "/slipway disapprove " + digest, 1, "disapprove " + digest + " for ada, comment 1 on pull request 1", "1 done"},
		{"take back what a merge left", "ada", "/slipway disapprove " + digest, 3, "disapprove " + digest + " for ada, comment 1 on pull request 3", "1 done"},
		{"take back, who may only read", "ben", "/slipway disapprove " + digest, 1, "", "1 refused"},
		{"an account that is gone", "", "/slipway approve " + digest, 1, "", "1 refused"},
		{"a commit of no fork", "ada", "/slipway approve " + strings.Repeat("a", 40), 1, "", "1 refused"},
		{"who may only read", "ben", "/slipway plan", 1, "", "1 refused"},
		{"a stranger", "mallory", "/slipway approve " + forkHead, 2, "", "1 refused"},
		{"a stranger who cannot spell", "mallory", "/slipway aprove", 2, "", "1 refused"},
		{"what there is not", "ada", "/slipway destroy", 1, "", "1 confused"},
		{"talk", "ada", "I would not /slipway plan that", 1, "", ""},
		{"another branch", "ada", "/slipway plan", 4, "", ""},
		{"an issue", "ada", "/slipway plan", 9, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSquare(t)
			l := s.listener()
			s.say(c.number, c.who, c.body)
			for range 3 {
				if err := l.round(t.Context()); err != nil {
					t.Error(err)
				}
			}
			s.did(c.orders, c.reactions)
		})
	}
}

func TestCommentsThatAreNoCommands(t *testing.T) {
	s := newSquare(t)
	l := s.listener()
	s.say(1, "ada", "/slipway plan").Bot = true
	s.say(1, "ada", forge.Marker{Site: "s", Kind: "plan"}.Mark("/slipway plan"))
	s.say(1, "ada", forge.Marker{Kind: "reply-1"}.Mark("Nothing was done:\n\n- `/slipway plan`"))
	s.say(1, "ada", "/slipway plan").Written = time.Now().Add(-time.Hour) // before there was a listener
	if err := l.round(t.Context()); err != nil {
		t.Error(err)
	}
	s.did("", "")
	s.replied()
}

// What was meant as a command and is none is answered: that nothing was done, why,
// and how to write it. Whoever may not write sees as much as ever.
func TestNearMissesAreAnswered(t *testing.T) {
	for _, c := range []struct {
		name, who, body, reactions, why string
		change                          func(*forge.Comment)
	}{
		{"a space", "ada", " /slipway approve " + digest, "1 confused", "a space before it", nil},
		{"a capital", "ada", "/Slipway approve " + digest, "1 confused", "small letters", nil},
		{"a short digest", "ada", "/slipway approve " + digest[1:], "1 confused", "digits and needs", nil},
		{"the second line", "ada", "Done.\n/slipway approve " + digest, "1 confused", "not in the first line", nil},
		{"edited", "ada", "/slipway approve " + digest, "1 confused", "it was edited", func(c *forge.Comment) { c.Changed = c.Written.Add(time.Second) }},
		{"an App in her name", "ada", "/slipway approve " + digest, "1 confused", "by a program (helper)", func(c *forge.Comment) { c.Via = "helper" }},
		{"a reader", "ben", " /slipway approve " + digest, "1 refused", "", nil},
		{"a stranger who edits", "mallory", "/slipway approve " + digest, "1 refused", "", func(c *forge.Comment) { c.Changed = c.Written.Add(time.Second) }},
		{"talk that was edited", "ada", "Nice work", "", "", func(c *forge.Comment) { c.Changed = c.Written.Add(time.Second) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSquare(t)
			l := s.listener()
			if said := s.say(1, c.who, c.body); c.change != nil {
				c.change(said)
			}
			for range 3 {
				if err := l.round(t.Context()); err != nil {
					t.Error(err)
				}
			}
			s.did("", c.reactions)
			if c.why == "" {
				s.replied()
			} else {
				s.replied(c.why, "1 1: Nothing was done for [this comment](https://forge.example/c/1): ", "- `/slipway approve DIGEST`")
			}
		})
	}
}

// replied compares the last reply with the words that it has to have; none for no
// reply.
func (s *square) replied(words ...string) {
	s.t.Helper()
	if len(s.replies) != min(1, len(words)) {
		s.t.Fatalf("the replies are %q", s.replies)
	}
	for _, word := range words {
		if !strings.Contains(s.replies[0], word) {
			s.t.Errorf("the reply is %q, without %q", s.replies[0], word)
		}
	}
}

// Replies are comments, which people are told of and a forge takes only so many
// of: there are a few in an hour.
func TestRepliesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquare(t)
		l := s.listener()
		for range 2 {
			for range 59 {
				s.say(1, "ada", " /slipway plan")
				if err := l.round(t.Context()); err != nil {
					t.Error(err)
				}
				<-time.After(time.Minute)
			}
			if len(s.replies) != maxReplies || len(s.reactions) != 59 {
				t.Errorf("%d replies and %d reactions in an hour", len(s.replies), len(s.reactions))
			}
			s.replies, s.reactions = nil, nil
			<-time.After(2 * time.Minute)
		}
	})
}

// A reply that could not be written is written later, once, also by the next life
// of the daemon.
func TestReplySurvives(t *testing.T) {
	s := newSquare(t)
	l := s.listener()
	s.say(1, "ada", " /slipway plan")
	s.deaf = errors.New("broken")
	for range 2 {
		if err := l.round(t.Context()); !errors.Is(err, s.deaf) {
			t.Errorf("got %v", err)
		}
	}
	s.deaf = nil
	for range 2 {
		l = s.listener()
		if err := l.round(t.Context()); err != nil {
			t.Error(err)
		}
	}
	s.did("", "1 confused")
	s.replied("a space before it")
}

// A command that was carried out stays so when its writer edits the comment.
func TestCommandThatIsEditedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquare(t)
		l := s.listener()
		round := func() {
			t.Helper()
			if err := l.round(t.Context()); err != nil {
				t.Error(err)
			}
		}
		s.say(1, "ada", "/slipway approve "+digest)
		round()
		s.did("approve "+digest+" for ada, comment 1 on pull request 1", "1 done")
		for range 20 {
			<-time.After(time.Minute)
			s.say(2, "ada", "go on")
			round()
		}
		s.comments[0].Changed = time.Now()
		for range 5 {
			round()
			<-time.After(20 * time.Second)
		}
		s.did("", "1 confused")
		s.replied("it was edited")
	})
}

// An order that makes no sense here gets no reply: another site may have obeyed.
func TestOrderThatMakesNoSense(t *testing.T) {
	s := newSquare(t)
	l := s.listener()
	s.refuses = fmt.Errorf("%w: nothing waits", site.ErrRefused)
	s.say(1, "ada", "/slipway approve "+digest)
	if err := l.round(t.Context()); err != nil {
		t.Error(err)
	}
	s.did("", "1 refused")
	s.replied()
}

// A command is carried out once and answered, whatever fails in between, and
// whenever the daemon is started again.
func TestCommandSurvives(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func(*square) *error{
		"the forge":    func(s *square) *error { return &s.away },
		"the answer":   func(s *square) *error { return &s.deaf },
		"the approval": func(s *square) *error { return &s.refuses },
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %t", name, restarted), func(t *testing.T) {
				s := newSquare(t)
				l := s.listener()
				s.say(1, "ada", "/slipway approve "+digest)
				*fail(s) = broken
				for range 2 {
					if err := l.round(t.Context()); !errors.Is(err, broken) {
						t.Errorf("got %v", err)
					}
				}
				*fail(s) = nil
				for range 2 {
					if restarted {
						l = s.listener()
					}
					if err := l.round(t.Context()); err != nil {
						t.Error(err)
					}
				}
				s.did("approve "+digest+" for ada, comment 1 on pull request 1", "1 done")
			})
		}
	}
}

// Where it cannot be remembered that a command was carried out, it is not
// answered either.
func TestForgetfulMemory(t *testing.T) {
	s := newSquare(t)
	l := s.listener()
	s.say(1, "ada", "/slipway plan")
	s.forgets = errors.New("disk full")
	for range 2 {
		if err := l.round(t.Context()); !errors.Is(err, s.forgets) {
			t.Errorf("got %v", err)
		}
	}
	s.did("plan 1", "")
	s.forgets = nil
	if err := l.round(t.Context()); err != nil {
		t.Error(err)
	}
	s.did("", "1 seen")
}

func TestCommentThatIsGone(t *testing.T) {
	s := newSquare(t)
	l := s.listener()
	s.say(1, "ada", "/slipway plan")
	s.deaf = fmt.Errorf("%w: deleted", forge.ErrGone)
	if err := l.round(t.Context()); err != nil {
		t.Error(err)
	}
	s.deaf = nil
	if err := l.round(t.Context()); err != nil {
		t.Error(err)
	}
	s.did("plan 1", "")
}

// One comment that cannot be answered, and one that cannot be obeyed, keep no
// other back. They are problems for a day, and are then given up.
func TestOneCommentThatFails(t *testing.T) {
	for name, spoil := range map[string]func(*square){
		"the answer":     func(s *square) { s.denied = 1 },
		"the permission": func(s *square) { s.broken = "root" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSquare(t)
				l := s.listener()
				spoil(s)
				s.say(1, "root", "/slipway approve "+digest)
				var orders, reactions []string
				for n := range 26 {
					s.say(1, "ada", "/slipway plan")
					err := l.round(t.Context())
					if n < 24 && !errors.Is(err, forge.ErrDenied) || n > 24 && err != nil {
						t.Errorf("hour %d: got %v", n, err)
					}
					orders, reactions = append(orders, "plan 1"), append(reactions, fmt.Sprint(n+2, " seen"))
					<-time.After(time.Hour)
				}
				s.denied, s.broken = 0, ""
				if err := l.round(t.Context()); err != nil {
					t.Error(err)
				}
				if name == "the answer" {
					orders = append([]string{"approve " + digest + " for root, comment 1 on pull request 1"}, orders...)
				}
				s.did(strings.Join(orders, ", "), strings.Join(reactions, ", "))
				if len(l.is.Commands) > 2 || len(l.failing) > 0 {
					t.Errorf("%d commands are remembered, %d fail", len(l.is.Commands), len(l.failing))
				}
			})
		})
	}
}

// Strangers do not use up what the forge takes of us: some of them are told that
// they may not, the others see no answer. Who may is answered as ever.
func TestStrangersAreNotAllAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquare(t)
		l := s.listener()
		rounds := func() (answered int) {
			for n := range 59 {
				s.say(2, fmt.Sprint("stranger-", n), "/slipway approve "+forkHead)
				if err := l.round(t.Context()); err != nil {
					t.Error(err)
				}
				<-time.After(time.Minute)
			}
			answered, s.reactions = len(s.reactions), nil
			return answered
		}
		if n := rounds(); n != maxRefused {
			t.Errorf("%d strangers are answered in an hour", n)
		}
		s.say(1, "ada", "/slipway plan")
		if err := l.round(t.Context()); err != nil {
			t.Error(err)
		}
		s.did("plan 1", "60 seen")
		<-time.After(time.Minute)
		if n := rounds(); n != maxRefused {
			t.Errorf("%d strangers are answered in the next", n)
		}
	})
}

// However long the forge takes no answers, what is remembered fits the outbox,
// and nothing is carried out twice.
func TestManyCommandsInADeafForge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquare(t)
		l := s.listener()
		s.deaf = &forge.Limited{Until: time.Now().Add(time.Hour), Why: "used up"}
		for range 900 {
			s.say(1, "ada", "/slipway plan").ID += 1 << 40
			if err := l.round(t.Context()); err == nil {
				t.Fatal("it is answered")
			}
			<-time.After(2 * time.Second)
		}
		if len(s.orders) != 900 || len(s.memory) > maxMessage {
			t.Errorf("%d orders are carried out, and %d bytes remembered", len(s.orders), len(s.memory))
		}
	})
}

// What is remembered stays small, and what was read is not read again.
func TestListenerForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquare(t)
		l := s.listener()
		for range 500 {
			s.say(1, "ada", "/slipway plan")
			if err := l.round(t.Context()); err != nil {
				t.Error(err)
			}
			<-time.After(10 * time.Second)
		}
		if len(s.reactions) != 500 || len(l.is.Commands) > 10 || len(s.memory) > 1000 {
			t.Errorf("%d answers; %d commands are remembered, in %d bytes", len(s.reactions), len(l.is.Commands), len(s.memory))
		}
	})
}

// After a long absence the comments of the last days are read, and not older
// ones.
func TestLongAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquare(t)
		s.listener()
		s.say(1, "ada", "/slipway plan")
		<-time.After(longestHeard - time.Hour)
		s.say(3, "ada", "/slipway approve "+digest)
		<-time.After(2 * time.Hour)
		if err := s.listener().round(t.Context()); err != nil {
			t.Error(err)
		}
		s.did("approve "+digest+" for ada, comment 2 on pull request 3", "2 done")
	})
}

// It looks every so often, at once when it is told to, not before the forge
// wants requests again, and less often while there is a problem, which is told.
func TestListenerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquare(t)
		l := s.listener()
		var problem error
		l.Problem = func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			problem = err
		}
		locked := func(do func()) {
			s.mu.Lock()
			defer s.mu.Unlock()
			do()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		after := func(d time.Duration, least, most int, what string) {
			t.Helper()
			before := s.looks()
			<-time.After(d)
			synctest.Wait()
			if n := s.looks() - before; n < least || n > most {
				t.Errorf("%s: looked %d times, want %d to %d", what, n, least, most)
			}
		}
		after(time.Minute+time.Second, 2, 2, "every minute")
		l.Look()
		after(0, 1, 1, "at once")
		locked(func() { s.away = &forge.Limited{Until: time.Now().Add(time.Hour), Why: "too many"} })
		l.Look()
		after(time.Hour-time.Second, 1, 1, "limited")
		locked(func() {
			if problem == nil {
				t.Error("nobody is told of the problem")
			}
		})
		locked(func() { s.away = errors.New("away") })
		after(2*time.Second, 1, 1, "no longer limited")
		after(time.Hour, 10, 30, "away")
		locked(func() { s.away = nil })
		after(slowest, 1, 5, "back")
		locked(func() {
			if problem != nil {
				t.Errorf("the problem is %v still", problem)
			}
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
