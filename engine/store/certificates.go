package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// certificates are the files that the query of an address names: the certificate of a CA to trust instead of
// those of the system (tls_ca), and a client certificate with its key (tls_cert and tls_key).
type certificates struct{ ca, cert, key string }

// cutCertificates removes the names of the files from an address.
func cutCertificates(address string) (rest string, files certificates) {
	rest, query, _ := strings.Cut(address, "?")
	separator := "?"
	for option := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(option, "=")
		switch file, err := url.PathUnescape(value); {
		case name == "tls_ca" && err == nil:
			files.ca = file
		case name == "tls_cert" && err == nil:
			files.cert = file
		case name == "tls_key" && err == nil:
			files.key = file
		case option != "":
			rest, separator = rest+separator+option, "&"
		}
	}
	return rest, files
}

// use makes a configuration use the files; a nil one is that of a client without TLS. The CA is read once, and the
// client certificate again for each connection, since it is replaced before it expires.
func (f certificates) use(config *tls.Config) error {
	switch {
	case f == certificates{}:
		return nil
	case config == nil:
		return errors.New("tls_ca, tls_cert and tls_key need TLS: the address must begin with rediss")
	case (f.cert == "") != (f.key == ""):
		return errors.New("tls_cert and tls_key need each other")
	}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("tls_ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls_ca: %s has no certificate in PEM", f.ca)
		}
	}
	if f.cert == "" {
		return nil
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			err = fmt.Errorf("tls_cert and tls_key: %w", err)
		}
		return &pair, err
	}
	_, err := config.GetClientCertificate(nil)
	return err
}
