package pkcs11

// What the daemon and the program slipway-pkcs11 send each other, as one line of JSON for each message. The daemon
// sends a Request. The program answers with a Login if the token demands a PIN, the daemon with the PIN, and the
// program with an Answer that has Accepted. The last Answer has what was asked for. A Trouble ends the conversation.

// Request asks the program to describe a key, or to open what was wrapped for it.
type Request struct {
	// Module is the path of the vendor's library.
	Module string `json:"module"`
	// Token is a serial number; for a description also a label, or empty for the only token.
	Token string `json:"token,omitempty"`
	Key   Key    `json:"key"`
	// Open is what to open; nil for a description of the key.
	Open *Wrapped `json:"open,omitempty"`
}

// Key names a private key on a token: by its ID (CKA_ID) where it has one, else by its label (CKA_LABEL).
type Key struct {
	ID    []byte `json:"id,omitempty"`
	Label string `json:"label,omitempty"`
}

// Mechanism is a way in which a token opens a wrapped secret.
type Mechanism string

// The mechanisms.
const (
	OAEPSHA256 Mechanism = "rsa-oaep-sha256" // CKM_RSA_PKCS_OAEP, with MGF1 of SHA-256
	OAEPSHA1   Mechanism = "rsa-oaep-sha1"   // the same with SHA-1: all that some tokens offer
	ECDH       Mechanism = "ecdh"            // CKM_ECDH1_DERIVE without a key derivation function
)

// Wrapped is a wrapped secret: a ciphertext of RSA, or the ephemeral public point of an agreement.
type Wrapped struct {
	Mechanism Mechanism `json:"mechanism"`
	Value     []byte    `json:"value"`
}

// PIN answers a Login.
type PIN struct {
	PIN []byte `json:"pin"`
}

// Answer is a message of the program. One of its fields is set.
type Answer struct {
	Login    *Token   `json:"login,omitempty"`    // this token demands the PIN
	Accepted bool     `json:"accepted,omitempty"` // the token took the PIN
	Found    *Found   `json:"found,omitempty"`
	Secret   []byte   `json:"secret,omitempty"`
	Trouble  *Trouble `json:"trouble,omitempty"`
}

// Token is a token as its module describes it.
type Token struct {
	Serial string `json:"serial"`
	Label  string `json:"label"`
}

// Found describes a private key.
type Found struct {
	Token Token `json:"token"`
	Key   Key   `json:"key"`
	// CanLeave is set if the token would give the private key away.
	CanLeave bool `json:"canLeave,omitempty"`
	// Modulus and Exponent are those of an RSA key.
	Modulus  []byte `json:"modulus,omitempty"`
	Exponent []byte `json:"exponent,omitempty"`
	// Params (CKA_EC_PARAMS) and Point (CKA_EC_POINT) are those of a key on an elliptic curve.
	Params []byte `json:"params,omitempty"`
	Point  []byte `json:"point,omitempty"`
}

// Trouble is why the program cannot answer.
type Trouble struct {
	Kind TroubleKind `json:"kind"`
	// Call is the function of the module that failed, and Code what it returned (CKR_…).
	Call string `json:"call,omitempty"`
	Code uint64 `json:"code,omitempty"`
	// Text is what the system's loader said.
	Text string `json:"text,omitempty"`
	// Tokens are those that are there, where the right one is not.
	Tokens []Token `json:"tokens,omitempty"`
}

// TroubleKind is a kind of trouble.
type TroubleKind string

// The kinds of trouble.
const (
	NotLoaded   TroubleKind = "not-loaded"   // the system's loader refused the module
	NoModule    TroubleKind = "no-module"    // the file is no PKCS#11 module
	NoToken     TroubleKind = "no-token"     // Tokens are those that are there
	ManyTokens  TroubleKind = "many-tokens"  // more than one fits
	NoPIN       TroubleKind = "no-pin"       // the token has no user PIN yet
	PINPad      TroubleKind = "pin-pad"      // the PIN has to be typed on the token
	PINLocked   TroubleKind = "pin-locked"   // after wrong attempts
	LastAttempt TroubleKind = "last-attempt" // another wrong PIN locks the token; none was sent
	WrongPIN    TroubleKind = "wrong-pin"
	NoKey       TroubleKind = "no-key"
	ManyKeys    TroubleKind = "many-keys"
	NoPublic    TroubleKind = "no-public" // the public half of the key is not on the token
	Refused     TroubleKind = "refused"   // Call returned Code
)
