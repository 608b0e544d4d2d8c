package record

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.uber.org/zap"
)

// Times and sizes of requests to an etcd that several controllers share.
const (
	requestLimit = 5 * time.Second
	renewLimit   = 1500 * time.Millisecond // two tries fit between a renewal and the end of the lease
	dialLimit    = 3 * time.Second
	aliveEvery   = 6 * time.Second // etcd refuses pings more often than every 5 seconds
	aliveLimit   = 2 * time.Second
)

// Cluster is an existing etcd that the controllers of a site share. It holds the records instead of
// an etcd of the daemon's own.
type Cluster struct {
	// Endpoints are the client URLs of its members.
	Endpoints []string
	// TLS has the client's certificate and etcd's authority; nil for http:// on loopback.
	TLS *tls.Config
	// Prefix is what every key of every site begins with. It begins and ends in "/".
	Prefix string
	// Peer has this process run a member itself, and ask it; nil for an existing etcd. Endpoints and
	// TLS are not used with it.
	Peer *Peer
}

func (c *Cluster) String() string {
	if c.Peer != nil {
		return c.Peer.Address
	}
	return strings.Join(c.Endpoints, ",")
}

// shared is the part of a store whose records are in a cluster.
type shared struct {
	Cluster
	client *clientv3.Client
	raw    clientv3.KV // below the site's prefix, without a fence
	prefix string      // of the site, without "/" at its end
	boot   func() time.Duration

	mu   sync.Mutex
	term *Term         // the last one that this process began; nil before
	lost chan struct{} // closed when another controller leads, or may lead
	over bool          // lost is closed
	took chan struct{} // closed when the engine has the term and renews it
	had  bool          // took is closed
}

// connect makes the client. It sends nothing yet.
func (c Cluster) connect() (*shared, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: c.TLS, DialTimeout: dialLimit, Logger: zap.NewNop(),
		DialKeepAliveTime: aliveEvery, DialKeepAliveTimeout: aliveLimit, PermitWithoutStream: true,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", &c, err)
	}
	is := c.shared()
	is.client = client
	return is, nil
}

func (c Cluster) shared() *shared {
	return &shared{Cluster: c, boot: bootTime, lost: make(chan struct{}), took: make(chan struct{})}
}

// below makes the site's keys the only ones that the store sees.
func (c *shared) below(esc string) {
	c.prefix = c.Prefix + esc
	c.raw = namespace.NewKV(c.client.KV, c.prefix)
}

// Lost is closed when another controller leads the site, or when nobody knows who does. Then no
// record is written by this process any more, and it should end. It is nil for records of the
// daemon's own.
func (s *Store) Lost() <-chan struct{} {
	if s.shared == nil {
		return nil
	}
	return s.shared.lost
}

// depose notes that this process does not lead the site any more.
func (c *shared) depose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		close(c.lost)
	}
}

// hold notes the term that this process has begun last.
func (c *shared) hold(t *Term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = t
}

func (c *shared) held() *Term {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}

// take notes that the engine renews the term from now on.
func (c *shared) take() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.had {
		c.had = true
		close(c.took)
	}
}

// unanswered explains an error of a request.
func (c *shared) unanswered(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrLost):
		return err
	case errors.Is(err, rpctypes.ErrNoSpace):
		if c.Peer != nil {
			return fmt.Errorf("the records have reached their limit of %d MiB and nothing more is recorded: %w; remove nodes that are gone from the design, or split the site", quota>>20, err)
		}
		return fmt.Errorf("the etcd at %s has reached its space quota, and nothing more is recorded: %w; compact and defragment its members, then run `etcdctl alarm disarm`", c, err)
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errSlow):
		return fmt.Errorf("the etcd at %s does not answer: a majority of its members must run and be reachable from here: %w", c, err)
	}
	return fmt.Errorf("etcd at %s: %w", c, err)
}

// errSlow ends a request that takes too long.
var errSlow = errors.New("no answer in time")

// whereabouts says in the state directory where the records are, so that no program looks for them
// elsewhere.
type whereabouts struct {
	Prefix string `json:"prefix"`
}

const whereaboutsFile = "etcd.json"

// elsewhere returns where the records of the directory are; false if they are in the directory.
func elsewhere(dir string) (w whereabouts, is bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, whereaboutsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return w, false, nil
	} else if err != nil {
		return w, false, explain(err)
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return w, false, damaged(fmt.Errorf("%s: %w", whereaboutsFile, err))
	}
	return w, true, nil
}

// checkDirectory refuses a state directory whose records are not where this process looks for them.
// Records that are believed to be missing have every machine adopted again.
func (s *Store) checkDirectory() error {
	w, is, err := elsewhere(s.dir)
	switch {
	case err != nil:
		return err
	case (s.shared == nil || s.shared.Peer == nil) && hasMember(s.dir):
		return errors.New("this state directory has a member of the etcd that daemons form: start with --join, or use another state directory")
	case s.shared == nil && is:
		return fmt.Errorf("the records of this state directory are in an etcd, below %s: start with --etcd, or use another state directory", w.Prefix)
	case s.shared == nil:
		return nil
	}
	if _, err := os.Stat(filepath.Join(s.dir, "etcd")); err == nil && s.shared.Peer != nil {
		return errors.New("this state directory has the records of a single host: begin a cluster with them by `slipway member init`, or use a new state directory with --join")
	} else if err == nil {
		return errors.New("this state directory has records of its own, and they are not moved into etcd: use a new state directory with --etcd, or start without --etcd")
	}
	return nil
}

// noteWhereabouts writes where the records are, or refuses a prefix other than before.
func (s *Store) noteWhereabouts() error {
	w, is, err := elsewhere(s.dir)
	switch {
	case err != nil:
		return err
	case is && w.Prefix != s.shared.prefix:
		return fmt.Errorf("the records of this state directory are below %s in etcd, and not below %s: correct --etcd-prefix, or use a new state directory", w.Prefix, s.shared.prefix)
	case is:
		return nil
	}
	text, err := json.Marshal(whereabouts{s.shared.prefix})
	if err != nil {
		return err
	}
	if err := s.writeWhole(filepath.Join(s.dir, whereaboutsFile), append(text, '\n')); err != nil {
		return explain(err)
	}
	return nil
}

// checkForeign refuses a prefix below which something else is than records of the site.
func (s *Store) checkForeign(ctx context.Context, esc string) error {
	from, to := s.all()
	for _, own := range []string{filesBelow + esc + "/", keysBelow + esc + "/", versionKey} {
		if err := s.nothingIn(ctx, from, own, esc); err != nil {
			return err
		}
		if from = clientv3.GetPrefixRangeEnd(own); own == versionKey {
			from = versionKey + "\x00"
		}
	}
	return s.nothingIn(ctx, from, to, esc)
}

// all is the range of all records. In a shared etcd every key of the site has "/" after the prefix, and
// "0" is what comes after "/". Without these bounds the range would have the records of a site whose
// name begins with this one's, and what a role for the keys of this site alone may not read.
func (s *Store) all() (from, to string) {
	if s.shared != nil {
		return "/", "0"
	}
	return "\x00", "\x00" // etcd's way to say all keys
}

func (s *Store) nothingIn(ctx context.Context, from, to, esc string) error {
	var got *clientv3.GetResponse
	err := s.do(ctx, func(ctx context.Context) (err error) {
		got, err = s.kv.Get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		return err
	})
	if err != nil || len(got.Kvs) == 0 {
		return err
	}
	name, err := url.PathUnescape(esc)
	if err != nil {
		return err
	}
	return foreign{fmt.Errorf("%s%s in etcd is not a record of site %s, and nothing is written below this prefix: correct --etcd-prefix and --site; each site needs a prefix of its own",
		s.shared.prefix, got.Kvs[0].Key, name)}
}

// foreign is an error about what etcd holds. Asking again does not help.
type foreign struct{ error }

func (f foreign) Unwrap() error { return f.error }
