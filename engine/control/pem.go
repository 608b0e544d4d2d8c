package control

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// authorities are those of persons' certificates, read again when the file has changed. While it cannot
// be read there are none.
type authorities struct {
	path  string
	owner uint32
	log   *slog.Logger

	mu    sync.Mutex
	stamp hostfile.Stamp
	read  *x509.CertPool
}

func (a *authorities) pool() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	var now hostfile.Stamp
	info, err := os.Stat(a.path)
	if err == nil {
		now = hostfile.StampOf(info)
	}
	if a.read != nil && now == a.stamp {
		return a.read
	}
	var pool *x509.CertPool
	if err == nil {
		pool, err = readAuthorities(a.path, a.owner)
	}
	if err != nil {
		a.log.Error("the authorities of persons cannot be read, so no certificate of a person is accepted", "err", err)
		pool = x509.NewCertPool()
	}
	a.stamp, a.read = now, pool
	return pool
}

// mostAuthorities bounds the file of authorities, in bytes.
const mostAuthorities = 1 << 20

// readAuthorities reads a file that decides who everybody is: only its owner may change it.
func readAuthorities(path string, owner uint32) (*x509.CertPool, error) {
	text, err := hostfile.Read(path, owner, mostAuthorities, "who persons are")
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, fmt.Errorf("%w: there is no certificate in %s", fs.ErrInvalid, path)
	}
	return pool, nil
}

// isAddress says whether what a certificate has as an e-mail address is one: with one @, and something
// before and behind it.
func isAddress(text string) bool {
	user, host, ok := strings.Cut(text, "@")
	return ok && user != "" && host != "" && !strings.Contains(host, "@")
}

// commonNames is how many common names (X.520, 2.5.4.3) the subject of a certificate has.
func commonNames(c *x509.Certificate) (n int) {
	for _, a := range c.Subject.Names {
		if a.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}) {
			n++
		}
	}
	return n
}
