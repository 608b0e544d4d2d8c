package control

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// fileStamp tells one state of a file from another.
type fileStamp struct {
	inode   uint64
	changed syscall.Timespec
}

func stampOf(path string) (s fileStamp, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return s, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return fileStamp{st.Ino, st.Ctim}, nil
}

// keyPair is a certificate with its key, read again when one of the files has changed.
type keyPair struct {
	cert, key string

	mu     sync.Mutex
	stamps [2]fileStamp
	pair   *tls.Certificate
	failed [2]fileStamp // the state of the files that was found wrong last
	log    *slog.Logger
}

func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	certStamp, cerr := stampOf(k.cert)
	keyStamp, kerr := stampOf(k.key)
	now := [2]fileStamp{certStamp, keyStamp}
	err := cmp.Or(cerr, kerr)
	if k.pair != nil && (err == nil && now == k.stamps || now == k.failed) {
		return k.pair, nil
	}
	loaded, lerr := tls.LoadX509KeyPair(k.cert, k.key)
	if err = cmp.Or(err, lerr); err != nil {
		if k.pair != nil { // half renewed
			k.failed = now
			k.log.Error("the certificate of the API has changed and cannot be used; the one before is shown until it expires", "expires", k.pair.Leaf.NotAfter, "err", err)
			return k.pair, nil
		}
		return nil, fmt.Errorf("certificate of the API: %w", err)
	}
	k.stamps, k.pair, k.failed = now, &loaded, [2]fileStamp{}
	return k.pair, nil
}

// authorities are those of persons' certificates, read again when the file has changed. While it cannot
// be read there are none.
type authorities struct {
	path  string
	owner uint32
	log   *slog.Logger

	mu    sync.Mutex
	stamp fileStamp
	read  *x509.CertPool
}

func (a *authorities) pool() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, err := stampOf(a.path)
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
