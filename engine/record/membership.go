package record

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// changeLimit bounds a change of who the members are.
const (
	changeLimit  = 15 * time.Second
	patientEvery = 500 * time.Millisecond
)

// Member is a member of the etcd that daemons form themselves.
type Member struct {
	Address string `json:"address"`
	// Started is false until the member has first started.
	Started bool `json:"started"`
	// Witness is set if it runs without a daemon; it is known of a member that has started.
	Witness bool `json:"witness,omitempty"`
	// Votes is set if a majority is counted with it. A new member votes once it has caught up and
	// the number of members that vote stays odd.
	Votes bool `json:"votes"`
	// Here is set for the member that was asked.
	Here bool `json:"here,omitempty"`
	// Leads is set if it orders the writes of all members. The daemon that leads the site may be on
	// another host.
	Leads bool `json:"leads,omitempty"`
	// Trouble is why it does not answer the member that was asked.
	Trouble string `json:"trouble,omitempty"`

	id uint64
}

// checkAddress refuses an address that members cannot reach each other by.
func checkAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || at.Port() == 0 || at.Addr().IsUnspecified() || at.Addr().Zone() != "" || at.String() != address {
		return fmt.Errorf("%q is not IP:PORT, such as 10.0.0.1:2380: members reach each other by addresses, not by names", address)
	}
	return nil
}

func addressURL(address string) []url.URL { return []url.URL{{Scheme: "https", Host: address}} }

var errNoPeers = errors.New("this daemon has no members: it is not started with --join")

// Members are the members, as this one knows them. It asks each other one whether it answers, and
// needs no majority.
func (s *Store) Members(ctx context.Context) ([]Member, error) {
	if s.shared == nil || s.shared.Peer == nil {
		return nil, errNoPeers
	}
	all := s.etcd.members()
	var asking sync.WaitGroup
	for i := range all {
		if m := &all[i]; !m.Here && m.Started {
			asking.Go(func() {
				m.Trouble = s.etcd.trouble(ctx, s.shared.Peer, m.Address)
			})
		}
	}
	asking.Wait()
	return all, nil
}

// otherCluster is the trouble of a member that was begun anew.
const otherCluster = "it is of another cluster, which was begun later or earlier"

// trouble is why another member does not answer as one.
func (m *member) trouble(ctx context.Context, p *Peer, address string) string {
	switch _, cluster, err := p.ask(ctx, address); {
	case err != nil:
		return err.Error()
	case cluster != m.etcd.Server.Cluster().ID().String():
		return otherCluster
	}
	return ""
}

// members are the members as the log of this one says.
func (m *member) members() (all []Member) {
	server := m.etcd.Server
	for _, is := range server.Cluster().Members() {
		address := ""
		if len(is.PeerURLs) > 0 {
			address = strings.TrimPrefix(is.PeerURLs[0], "https://")
		}
		all = append(all, Member{
			Address: address, Started: hasStarted(is.Name), Witness: strings.HasPrefix(is.Name, witnessName), Votes: !is.IsLearner,
			Here: is.ID == server.MemberID(), Leads: is.ID == server.Leader(), id: uint64(is.ID),
		})
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.Address, b.Address) })
	return all
}

// AddMember adds a member that does not vote yet. It votes once it has started and caught up, and
// the number of members that vote becomes odd: one goes to three, and never stays at two.
func (s *Store) AddMember(ctx context.Context, address string) error {
	if err := checkAddress(address); err != nil {
		return err
	}
	return s.change(ctx, func(ctx context.Context, all []Member) error {
		if _, is := find(all, address); is {
			return fmt.Errorf("%s is a member already: see `slipway member list`; if it has lost its data, run `slipway member replace %s`", address, address)
		}
		return s.add(ctx, address)
	})
}

func (s *Store) add(ctx context.Context, address string) error {
	return patient(ctx, func() error {
		_, err := s.etcd.client.MemberAddAsLearner(ctx, []string{peerURL(address)})
		return err
	})
}

func (s *Store) remove(ctx context.Context, m Member) error {
	return patient(ctx, func() error {
		_, err := s.etcd.client.MemberRemove(ctx, m.id)
		return err
	})
}

// patient repeats a change that etcd refuses because members are not connected: it wants that for 5
// seconds (etcd, HealthInterval), so a refusal right after a start means nothing.
func patient(ctx context.Context, change func() error) error {
	for {
		err := change()
		if !errors.Is(err, rpctypes.ErrUnhealthy) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another member does not run or is not connected, and none would be left to lose: see `slipway member list`, and start it, or replace it if it is lost: %w", err)
		case <-time.After(patientEvery):
		}
	}
}

// RemoveMember removes a member.
func (s *Store) RemoveMember(ctx context.Context, address string) error {
	return s.change(ctx, func(ctx context.Context, all []Member) error {
		m, err := removable(all, address)
		if err != nil {
			return err
		}
		return s.remove(ctx, m)
	})
}

// ReplaceMember removes a member that is lost, or has lost its data, and adds another one or the same
// anew. That is one change for people: etcd adds nothing while a member that votes is away.
func (s *Store) ReplaceMember(ctx context.Context, address, by string) error {
	if err := checkAddress(by); err != nil {
		return err
	}
	return s.change(ctx, func(ctx context.Context, all []Member) error {
		m, is := find(all, address)
		_, taken := find(all, by)
		switch {
		case !is:
			return fmt.Errorf("%s is not a member: see `slipway member list`, and run `slipway member add %s` if it is missing", address, by)
		case taken && by != address:
			return fmt.Errorf("%s is a member already: see `slipway member list`", by)
		case m.Here:
			return fmt.Errorf("%s is the member of this daemon: stop the daemon, and run the command on the host that leads then", address)
		}
		if err := s.remove(ctx, m); err != nil {
			return err
		}
		if err := s.add(ctx, by); err != nil {
			return fmt.Errorf("%s was removed, and %s is not a member yet: run `slipway member add %s`: %w", address, by, by, err)
		}
		return nil
	})
}

func find(all []Member, address string) (Member, bool) {
	i := slices.IndexFunc(all, func(m Member) bool { return m.Address == address })
	if i < 0 {
		return Member{}, false
	}
	return all[i], true
}

// removable returns the member that may be removed: what is left must not be two members that vote,
// of which both would be needed.
func removable(all []Member, address string) (Member, error) {
	m, is := find(all, address)
	switch {
	case !is:
		return m, fmt.Errorf("%s is not a member: see `slipway member list`", address)
	case m.Here:
		return m, fmt.Errorf("%s is the member of this daemon: stop the daemon, and run the command on the host that leads then", address)
	case !m.Votes:
		return m, nil
	}
	voters, waiting := count(all)
	if voters--; voters+promotable(voters, waiting) < MinVoters {
		return m, fmt.Errorf("without %s two members would be left, and the loss of either would stop both: run `slipway member add` for another one first and wait until it has started, or `slipway member replace %s` to take this one back without its data",
			address, address)
	}
	return m, nil
}

// MinVoters is the least number of members that survives the loss of one.
const MinVoters = 3

// count returns how many members vote, and how many others have started and are not known to be silent.
func count(all []Member) (voters, waiting int) {
	for _, m := range all {
		switch {
		case m.Votes:
			voters++
		case m.Started && m.Trouble == "":
			waiting++
		}
	}
	return voters, waiting
}

// promotable is how many of the members that wait are to vote: as many as make the number of voters
// odd, and at least three. An even number survives the loss of no more members than the odd one
// below it.
func promotable(voters, waiting int) int {
	n := waiting
	if (voters+n)%2 == 0 {
		n--
	}
	if n < 0 || voters+n < MinVoters {
		return 0
	}
	return n
}

// change runs a change of who the members are, on the list that a majority knows now. Changes of this
// process run one after the other: each is checked against what the one before has left.
func (s *Store) change(ctx context.Context, f func(context.Context, []Member) error) error {
	if s.shared == nil || s.shared.Peer == nil {
		return errNoPeers
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, changeLimit, errSlow)
	defer cancel()
	err := s.stopped()
	if err == nil {
		err = s.etcd.settle(ctx, s.etcd.etcd.Server.LinearizableReadNotify)
	}
	if err != nil {
		return fmt.Errorf("nothing was changed: a majority of the members must run: %w", err)
	}
	all, err := s.Members(ctx)
	if err != nil {
		return err
	}
	return f(ctx, all)
}

// Voters is how many members vote, as this one knows; 0 without members.
func (s *Store) Voters() int {
	if s.shared == nil || s.shared.Peer == nil {
		return 0
	}
	voters, _ := count(s.etcd.members())
	return voters
}
