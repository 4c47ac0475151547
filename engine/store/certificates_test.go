package store_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// certified writes the certificates of a CA, and of a server and client that it has signed, to a folder.
func certified(t *testing.T) (folder string, pair tls.Certificate, ca *x509.CertPool) {
	t.Helper()
	folder = t.TempDir()
	write := func(name, kind string, der []byte) {
		must(t, os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "flunq test"}, NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	write("tls.crt", "CERTIFICATE", der)
	write("tls.key", "PRIVATE KEY", secret)
	pair, err = tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	must(t, err)
	ca = x509.NewCertPool()
	ca.AddCert(pair.Leaf)
	return folder, pair, ca
}

// A Redis that requires client certificates is reached with the files that the address names: alone, as a Redis
// Cluster and through a Sentinel.
func TestDialCertificate(t *testing.T) {
	t.Parallel()
	folder, pair, ca := certified(t)
	crt, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	serve := func(settings ...string) (*redistest.Server, string) {
		at := redistest.FreeAddr(t)
		_, port, _ := net.SplitHostPort(at)
		return redistest.Serve(t, append(settings, "--tls-port", port, "--tls-auth-clients", "yes",
			"--tls-cert-file", crt, "--tls-key-file", key, "--tls-ca-cert-file", crt)...), at
	}
	_, single := serve()
	node, cluster := serve("--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-announce-ip", "127.0.0.1")
	plain := node.Client(t)
	must(t, plain.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	for deadline := time.Now().Add(time.Minute); !strings.Contains(plain.ClusterInfo(t.Context()).Val(), "cluster_state:ok"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cluster is down")
		}
	}
	sentinel, err := server.NewServerTLS("127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: ca, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})
	must(t, err)
	defer sentinel.Close()
	master, port, _ := net.SplitHostPort(single)
	must(t, sentinel.Register("SENTINEL", func(c *server.Peer, _ string, args []string) {
		if args[0] == "sentinels" {
			c.WriteLen(0)
		} else {
			c.WriteStrings([]string{master, port})
		}
	}))
	files := "?tls_ca=" + crt + "&tls_cert=" + crt + "&tls_key=" + key
	for _, address := range []string{"rediss://" + single + "/1", "rediss-cluster://" + cluster, "rediss-sentinel://" + sentinel.Addr().String() + "/main"} {
		rdb, err := store.Dial(t.Context(), address+files)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := rdb.Set(t.Context(), "key", "value", 0).Err(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		must(t, rdb.Close())
	}
	if _, err := store.Dial(t.Context(), "rediss://"+single+"?tls_ca="+crt); !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "; if it requires a client certificate, tls_cert and tls_key in the address name its files") {
		t.Errorf("without a client certificate: %v", err)
	}
	for address, want := range map[string]string{
		"redis://" + single + files:                                     "must begin with rediss",
		"rediss://" + single + "?tls_cert=" + crt:                       "tls_cert and tls_key need each other",
		"rediss://" + single + "?tls_ca=" + key:                         "tls_ca: " + key + " has no certificate in PEM",
		"rediss-cluster://" + cluster + "?tls_ca=/none.pem":             "tls_ca: open /none.pem: no such file or directory",
		"rediss-sentinel://h/main?tls_cert=/none.pem&tls_key=/none.key": "tls_cert and tls_key: open /none.pem: no such file or directory",
	} {
		if err := store.CheckAddress(address); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", address, err, want)
		}
	}
}

// A Redis that has too many clients closes new connections before it has said why.
func TestDialTooManyClients(t *testing.T) {
	t.Parallel()
	rdb := redistest.Serve(t)
	must(t, rdb.Client(t).ConfigSet(t.Context(), "maxclients", "1").Err())
	_, err := store.Dial(t.Context(), rdb.Addr())
	if said := errors.Is(err, io.EOF) || strings.Contains(fmt.Sprint(err), "too many clients (maxclients)"); !errors.Is(err, store.ErrUnreachable) || !said {
		t.Errorf("error %v, want one about the number of clients", err)
	}
}
