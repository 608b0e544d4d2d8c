package main

import (
	"strings"
	"unsafe"

	"github.com/slipway-gitops/slipway/engine/pkcs11"
)

// Flags of a token (CK_TOKEN_INFO).
const (
	flagLoginRequired    = 0x4
	flagPINInitialized   = 0x8
	flagPINPad           = 0x100
	flagTokenInitialized = 0x400
	flagPINFinalTry      = 0x20000
	flagPINLocked        = 0x40000
)

// tokenInfo is CK_TOKEN_INFO.
type tokenInfo struct {
	label  [32]byte
	_      [32 + 16]byte // its maker and model
	serial [16]byte
	flags  uintptr
	_      [10]uintptr      // limits of sessions, PINs and memory
	_      [2 + 2 + 16]byte // versions and time
}

// slot is a slot with a token, and a session with it.
type slot struct {
	*module
	id      uintptr
	info    tokenInfo
	token   pkcs11.Token
	session uintptr
}

// mostSlots limits the slots that are looked at.
const mostSlots = 64

// slot finds a token: by its serial number alone, or also by its label; or the only one where no name is given.
func (m *module) slot(name string, bySerial bool) (*slot, error) {
	all, err := m.slots()
	if err != nil {
		return nil, err
	}
	var fit []*slot
	var there []pkcs11.Token
	for _, s := range all {
		there = append(there, s.token)
		if s.token.Serial == name || !bySerial && (name == "" || s.token.Label == name) {
			fit = append(fit, s)
		}
	}
	switch {
	case len(fit) == 0:
		return nil, &trouble{pkcs11.Trouble{Kind: pkcs11.NoToken, Tokens: there}}
	case len(fit) > 1:
		return nil, &trouble{pkcs11.Trouble{Kind: pkcs11.ManyTokens, Tokens: there}}
	}
	return fit[0], nil
}

// slots are those with a token that can be used.
func (m *module) slots() (all []*slot, err error) {
	var mem memory
	defer mem.Unpin()
	ids, n := new([mostSlots]uintptr), new(uintptr)
	*n = mostSlots
	const withToken = 1
	if err := m.must(getSlotList, withToken, pointer(&mem, ids), pointer(&mem, n)); err != nil {
		return nil, err
	}
	for _, id := range ids[:min(*n, mostSlots)] {
		info := new(tokenInfo)
		switch rv := m.do(getTokenInfo, id, pointer(&mem, info)); {
		case rv == rvTokenNotPresent || rv == rvTokenNotRecognized:
			continue
		case rv != rvOK:
			return nil, refused(getTokenInfo, rv)
		}
		if info.flags&flagTokenInitialized != 0 {
			all = append(all, &slot{module: m, id: id, info: *info, token: pkcs11.Token{Serial: text(info.serial[:]), Label: text(info.label[:])}})
		}
	}
	return all, nil
}

// text is a text of fixed width, which blanks fill up.
func text(b []byte) string { return strings.ToValidUTF8(strings.TrimRight(string(b), " \x00"), "?") }

// open opens a session that changes nothing on the token.
func (s *slot) open() error {
	var mem memory
	defer mem.Unpin()
	const serial = 4
	session := new(uintptr)
	err := s.must(openSession, s.id, serial, 0, 0, pointer(&mem, session))
	s.session = *session
	return err
}

func (s *slot) login(pin []byte) error {
	var mem memory
	defer mem.Unpin()
	const user = 1
	at, n := mem.bytes(pin)
	switch rv := s.do(login, s.session, user, uintptr(at), n); rv {
	case rvOK, rvUserAlreadyLoggedIn:
		return nil
	case rvPINIncorrect:
		return kind(pkcs11.WrongPIN)
	case rvPINLocked:
		return kind(pkcs11.PINLocked)
	case rvPINNotInitialized:
		return kind(pkcs11.NoPIN)
	default:
		return refused(login, rv)
	}
}

// Kinds of attributes.
const (
	attrClass       = 0x0
	attrToken       = 0x1
	attrLabel       = 0x3
	attrValue       = 0x11
	attrKeyType     = 0x100
	attrID          = 0x102
	attrSensitive   = 0x103
	attrModulus     = 0x120
	attrExponent    = 0x122
	attrExtractable = 0x162
	attrValueLen    = 0x161
	attrParams      = 0x180
	attrPoint       = 0x181
)

// attribute is CK_ATTRIBUTE.
type attribute struct {
	kind   uintptr
	value  unsafe.Pointer
	length uintptr
}

func (m *memory) attribute(kind uintptr, value []byte) attribute {
	at, n := m.bytes(value)
	return attribute{kind, at, n}
}

// number is a CK_ULONG as an attribute has it.
func number(n uintptr) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&n)), unsafe.Sizeof(n))...)
}

// mostAttribute limits the size of an attribute that is read, in bytes.
const mostAttribute = 16 << 10

// read returns an attribute of an object; nil where the object has none, or keeps it for itself.
func (s *slot) read(object, kind uintptr) ([]byte, error) {
	var mem memory
	defer mem.Unpin()
	value := make([]byte, mostAttribute)
	a := new(attribute)
	*a = mem.attribute(kind, value)
	rv := s.do(getAttributeValue, s.session, object, pointer(&mem, a), 1)
	switch {
	case rv == rvAttributeTypeInvalid || rv == rvAttributeSensitive:
		return nil, nil
	case rv != rvOK:
		return nil, refused(getAttributeValue, rv)
	case a.length > mostAttribute:
		return nil, nil
	}
	return value[:a.length], nil
}

// find returns the objects with these attributes, at most two: more than one is as bad as many.
func (s *slot) find(class uintptr, k pkcs11.Key) ([]uintptr, error) {
	var mem memory
	defer mem.Unpin()
	template := []attribute{mem.attribute(attrClass, number(class))}
	if len(k.ID) > 0 {
		template = append(template, mem.attribute(attrID, k.ID))
	} else {
		template = append(template, mem.attribute(attrLabel, []byte(k.Label)))
	}
	if err := s.must(findObjectsInit, s.session, pointer(&mem, &template[0]), uintptr(len(template))); err != nil {
		return nil, err
	}
	found, n := new([2]uintptr), new(uintptr)
	err := s.must(findObjects, s.session, pointer(&mem, found), 2, pointer(&mem, n))
	if ferr := s.must(findObjectsFinal, s.session); err == nil {
		err = ferr
	}
	return found[:min(*n, 2)], err
}
