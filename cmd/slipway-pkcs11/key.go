package main

import (
	"unsafe"

	"github.com/slipway-gitops/slipway/engine/pkcs11"
)

// Classes of objects.
const (
	classPublic  = 2
	classPrivate = 3
	classSecret  = 4
)

// privateKey finds a private key.
func (s *slot) privateKey(k pkcs11.Key) (uintptr, error) {
	found, err := s.find(classPrivate, k)
	switch {
	case err != nil:
		return 0, err
	case len(found) == 0:
		return 0, kind(pkcs11.NoKey)
	case len(found) > 1:
		return 0, kind(pkcs11.ManyKeys)
	}
	return found[0], nil
}

// describe describes a private key, by its public half where the private one does not say.
func (s *slot) describe(key uintptr) (*pkcs11.Found, error) {
	f := &pkcs11.Found{Token: s.token}
	id, err := s.read(key, attrID)
	if err != nil {
		return nil, err
	}
	label, err := s.read(key, attrLabel)
	if err != nil {
		return nil, err
	}
	f.Key = pkcs11.Key{ID: id, Label: text(label)}
	if f.CanLeave, err = s.canLeave(key); err != nil {
		return nil, err
	}
	objects := []uintptr{key}
	public, err := s.find(classPublic, f.Key)
	if err != nil {
		return nil, err
	}
	for _, object := range append(objects, public...) {
		for kind, into := range map[uintptr]*[]byte{attrModulus: &f.Modulus, attrExponent: &f.Exponent, attrParams: &f.Params, attrPoint: &f.Point} {
			if len(*into) > 0 {
				continue
			}
			if *into, err = s.read(object, kind); err != nil {
				return nil, err
			}
		}
	}
	if (len(f.Modulus) == 0 || len(f.Exponent) == 0) && (len(f.Params) == 0 || len(f.Point) == 0) {
		return nil, kind(pkcs11.NoPublic)
	}
	return f, nil
}

// canLeave reports whether the token would give a private key away. A token that does not say keeps it, as cards do.
func (s *slot) canLeave(key uintptr) (bool, error) {
	extractable, err := s.read(key, attrExtractable)
	if err != nil {
		return false, err
	}
	sensitive, err := s.read(key, attrSensitive)
	return len(extractable) == 1 && extractable[0] != 0 || len(sensitive) == 1 && sensitive[0] == 0, err
}

// mechanism is CK_MECHANISM.
type mechanism struct {
	kind   uintptr
	params unsafe.Pointer
	length uintptr
}

// oaep is CK_RSA_PKCS_OAEP_PARAMS.
type oaep struct {
	hash, mask, source uintptr
	label              unsafe.Pointer
	length             uintptr
}

// ecdh is CK_ECDH1_DERIVE_PARAMS.
type ecdh struct {
	function     uintptr
	sharedLength uintptr
	shared       unsafe.Pointer
	length       uintptr
	public       unsafe.Pointer
}

// unwrap has the token open a wrapped secret.
func (s *slot) unwrap(key uintptr, w *pkcs11.Wrapped) ([]byte, error) {
	switch w.Mechanism {
	case pkcs11.OAEPSHA256:
		return s.decryptOAEP(key, w.Value, oaep{hash: 0x250, mask: 2, source: 1})
	case pkcs11.OAEPSHA1:
		return s.decryptOAEP(key, w.Value, oaep{hash: 0x220, mask: 1, source: 1})
	case pkcs11.ECDH:
		return s.agree(key, w.Value)
	}
	return nil, &trouble{pkcs11.Trouble{Kind: pkcs11.Refused, Call: string(w.Mechanism), Code: 0x70}} // CKR_MECHANISM_INVALID
}

func (s *slot) decryptOAEP(key uintptr, value []byte, params oaep) ([]byte, error) {
	var mem memory
	defer mem.Unpin()
	p := &params
	mem.Pin(p)
	const rsaOAEP = 0x9
	if err := s.must(decryptInit, s.session, pointer(&mem, &mechanism{rsaOAEP, unsafe.Pointer(p), unsafe.Sizeof(*p)}), key); err != nil {
		return nil, err
	}
	secret, n := make([]byte, mostAttribute), new(uintptr)
	*n = uintptr(len(secret))
	from, length := mem.bytes(value)
	into, _ := mem.bytes(secret)
	err := s.must(decrypt, s.session, uintptr(from), length, uintptr(into), pointer(&mem, n))
	return secret[:min(*n, uintptr(len(secret)))], err
}

// agree derives the secret that the key shares with a public point. It is a session's object, which is read and is gone
// when the session ends.
func (s *slot) agree(key uintptr, point []byte) ([]byte, error) {
	var mem memory
	defer mem.Unpin()
	at, n := mem.bytes(point)
	const none = 1 // CKD_NULL
	params := &ecdh{function: none, length: n, public: at}
	mem.Pin(params)
	size := (len(point) - 1) / 2 // of an uncompressed point: 4, x and y
	no, yes := []byte{0}, []byte{1}
	const generic = 0x10
	template := []attribute{
		mem.attribute(attrClass, number(classSecret)), mem.attribute(attrKeyType, number(generic)), mem.attribute(attrToken, no),
		mem.attribute(attrSensitive, no), mem.attribute(attrExtractable, yes), mem.attribute(attrValueLen, number(uintptr(size))),
	}
	derived := new(uintptr)
	const ecdh1Derive = 0x1050
	err := s.must(deriveKey, s.session, pointer(&mem, &mechanism{ecdh1Derive, unsafe.Pointer(params), unsafe.Sizeof(*params)}), key,
		pointer(&mem, &template[0]), uintptr(len(template)), pointer(&mem, derived))
	if err != nil {
		return nil, err
	}
	return s.read(*derived, attrValue)
}
