package control

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
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
}

func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	certStamp, cerr := stampOf(k.cert)
	keyStamp, kerr := stampOf(k.key)
	now := [2]fileStamp{certStamp, keyStamp}
	err := cmp.Or(cerr, kerr)
	if err == nil && k.pair != nil && now == k.stamps {
		return k.pair, nil
	}
	loaded, lerr := tls.LoadX509KeyPair(k.cert, k.key)
	if err = cmp.Or(err, lerr); err != nil {
		if k.pair != nil {
			return k.pair, nil // half renewed
		}
		return nil, fmt.Errorf("certificate of the API: %w", err)
	}
	k.stamps, k.pair = now, &loaded
	return k.pair, nil
}

// authorities are those of persons' certificates, read again when the file has changed. While it cannot
// be read there are none.
type authorities struct {
	path string

	mu    sync.Mutex
	stamp fileStamp
	read  *x509.CertPool
}

func (a *authorities) pool() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, err := stampOf(a.path)
	if err == nil && a.read != nil && now == a.stamp {
		return a.read
	}
	var pool *x509.CertPool
	if err == nil {
		pool, err = readAuthorities(a.path)
	}
	if err != nil {
		a.read = nil
		return x509.NewCertPool()
	}
	a.stamp, a.read = now, pool
	return pool
}

func readAuthorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: there is no certificate in %s", fs.ErrInvalid, path)
	}
	return pool, nil
}
