package serve

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"os"
	"sync"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// Certificate is the certificate of a server, in PEM files that are read again when one of them has
// changed, so that it can be renewed while the daemon runs.
type Certificate struct {
	Cert, Key string       // the files
	Log       *slog.Logger // nil for none

	mu     sync.Mutex
	read   pairStamp
	pair   *tls.Certificate
	failed pairStamp // the last state of the files that could not be used
}

// pairStamp is a state of the two files.
type pairStamp [2]hostfile.Stamp

// Get gives the certificate, for tls.Config.GetCertificate. While the files cannot be used, such as
// when only one of them was renewed, it gives the one before. The error is about the files, and is
// returned only while there is none before.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.stamps()
	if c.pair != nil && (err == nil && now == c.read || now == c.failed) {
		return c.pair, nil
	}
	loaded, lerr := tls.LoadX509KeyPair(c.Cert, c.Key)
	switch err = cmp.Or(err, lerr); {
	case err == nil:
		c.read, c.pair, c.failed = now, &loaded, pairStamp{}
		return c.pair, nil
	case c.pair == nil:
		return nil, err
	}
	c.failed = now
	if c.Log != nil {
		c.Log.Error("the certificate has changed and cannot be used; the earlier one is used until it expires", "file", c.Cert, "expires", c.pair.Leaf.NotAfter, "err", err)
	}
	return c.pair, nil
}

func (c *Certificate) stamps() (now pairStamp, err error) {
	for i, path := range []string{c.Cert, c.Key} {
		info, ierr := os.Stat(path)
		if ierr != nil {
			err = cmp.Or(err, ierr)
			continue
		}
		now[i] = hostfile.StampOf(info)
	}
	return now, err
}
