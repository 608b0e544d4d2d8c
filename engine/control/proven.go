package control

import (
	"crypto/sha256"
	"crypto/x509"
	"sync"
	"time"
)

// proven are certificates of persons that were verified. A page that is open has its own verified again and again: as long as
// the authorities are the same ones, and every certificate of the chain is valid, the verdict is the same.
type proven struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]proof
}

// proof is what a verdict depends on.
type proof struct {
	by          *x509.CertPool
	from, until time.Time // when all of a chain is valid
}

// mostProven is how many are kept.
const mostProven = 4096

// verify verifies the first certificate with those between it and an authority.
func (p *proven) verify(shown []*x509.Certificate, by *x509.CertPool, now time.Time) error {
	sum := sha256.New()
	between := x509.NewCertPool()
	for n, c := range shown {
		sum.Write(c.Raw) // which says how long it is
		if n > 0 {
			between.AddCert(c)
		}
	}
	key := [sha256.Size]byte(sum.Sum(nil))
	if p.holds(key, by, now) {
		return nil
	}
	chains, err := shown[0].Verify(x509.VerifyOptions{Roots: by, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return err
	}
	is := proof{by, chains[0][0].NotBefore, chains[0][0].NotAfter}
	for _, c := range chains[0] {
		if c.NotBefore.After(is.from) {
			is.from = c.NotBefore
		}
		if c.NotAfter.Before(is.until) {
			is.until = c.NotAfter
		}
	}
	p.keep(key, is)
	return nil
}

func (p *proven) holds(key [sha256.Size]byte, by *x509.CertPool, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, known := p.all[key]
	return known && is.by == by && !now.Before(is.from) && !now.After(is.until)
}

func (p *proven) keep(key [sha256.Size]byte, is proof) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= mostProven {
		p.all = map[[sha256.Size]byte]proof{}
	}
	p.all[key] = is
}
