package driver

// Certified is a Machine that logs in over SSH, and may do so by a certificate that is
// signed for each login.
type Certified interface {
	// Certify has each login from then on show a certificate besides what its endpoint's
	// credential proves; the zero value ends that. It sends nothing.
	Certify(Certificates)
}

// Certificates are what logins by certificate take.
type Certificates struct {
	// Sign gives the certificate of a public key, "ssh-ed25519 AAAA…", for one login to the
	// machine's account. Nil is for no certificate.
	Sign func(publicKey, account string) (certificate string, err error)
	// Why says why there is no certificate although there should be one; empty where there
	// is one, or none should be.
	Why string
	// Last has the credential tried first: the design no longer asks for certificates, and
	// the system may still know nothing else.
	Last bool
}
