package main

import (
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/slipway-gitops/slipway/engine/pkcs11"
)

// call is the place of a function in CK_FUNCTION_LIST (PKCS #11 2.40, pkcs11f.h), after the version.
type call int

const (
	initialize        call = 0
	finalize          call = 1
	getSlotList       call = 4
	getTokenInfo      call = 6
	openSession       call = 12
	login             call = 18
	getAttributeValue call = 24
	findObjectsInit   call = 26
	findObjects       call = 27
	findObjectsFinal  call = 28
	decryptInit       call = 33
	decrypt           call = 34
	deriveKey         call = 62
	calls                  = 68 // in version 2.40, and in those before
)

var callNames = map[call]string{
	initialize: "C_Initialize", getSlotList: "C_GetSlotList", getTokenInfo: "C_GetTokenInfo", openSession: "C_OpenSession", login: "C_Login",
	getAttributeValue: "C_GetAttributeValue", findObjectsInit: "C_FindObjectsInit", findObjects: "C_FindObjects", findObjectsFinal: "C_FindObjectsFinal",
	decryptInit: "C_DecryptInit", decrypt: "C_Decrypt", deriveKey: "C_DeriveKey",
}

// Results of calls.
const (
	rvOK                   = 0
	rvPINIncorrect         = 0xa0
	rvPINLocked            = 0xa4
	rvUserAlreadyLoggedIn  = 0x100
	rvPINNotInitialized    = 0x102
	rvTokenNotPresent      = 0xe0
	rvTokenNotRecognized   = 0xe1
	rvAlreadyInitialized   = 0x191
	rvAttributeTypeInvalid = 0x12
	rvAttributeSensitive   = 0x11
)

// trouble is an error for the daemon.
type trouble struct{ pkcs11.Trouble }

func (t *trouble) Error() string { return string(t.Kind) }

func kind(k pkcs11.TroubleKind) error { return &trouble{pkcs11.Trouble{Kind: k}} }

// module is a loaded module. A nil one is none.
type module struct {
	functions []uintptr
	ready     bool
}

// load loads a module. Only C_GetFunctionList has to be exported by one.
func load(path string) (*module, error) {
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &trouble{pkcs11.Trouble{Kind: pkcs11.NotLoaded, Text: err.Error()}}
	}
	get, err := purego.Dlsym(library, "C_GetFunctionList")
	if err != nil {
		return nil, kind(pkcs11.NoModule)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	list := new(unsafe.Pointer)
	pin.Pin(list)
	if rv, _, _ := purego.SyscallN(get, uintptr(unsafe.Pointer(list))); rv != rvOK || *list == nil {
		return nil, kind(pkcs11.NoModule)
	}
	const version = 8 // CK_VERSION, up to the first pointer
	return &module{functions: unsafe.Slice((*uintptr)(unsafe.Add(*list, version)), calls)}, nil
}

// do calls a function and returns its result.
func (m *module) do(c call, args ...uintptr) uintptr {
	rv, _, _ := purego.SyscallN(m.functions[c], args...)
	return rv
}

// must calls a function that has to succeed.
func (m *module) must(c call, args ...uintptr) error { return refused(c, m.do(c, args...)) }

func refused(c call, rv uintptr) error {
	if rv == rvOK {
		return nil
	}
	return &trouble{pkcs11.Trouble{Kind: pkcs11.Refused, Call: callNames[c], Code: uint64(rv)}}
}

func (m *module) initialize() error {
	rv := m.do(initialize, 0)
	m.ready = rv == rvOK || rv == rvAlreadyInitialized
	if m.ready {
		return nil
	}
	return refused(initialize, rv)
}

// finalize ends all sessions, and with them the login.
func (m *module) finalize() {
	if m != nil && m.ready {
		m.do(finalize, 0)
	}
}

// memory is what a module may read and write while it is called.
type memory struct{ runtime.Pinner }

// pointer returns the address of a value, which stays where it is until Unpin.
func pointer[T any](m *memory, value *T) uintptr {
	m.Pin(value)
	return uintptr(unsafe.Pointer(value))
}

// bytes returns the address of bytes, and their number; 0 for none.
func (m *memory) bytes(b []byte) (unsafe.Pointer, uintptr) {
	if len(b) == 0 {
		return nil, 0
	}
	m.Pin(&b[0])
	return unsafe.Pointer(&b[0]), uintptr(len(b))
}
