package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// keeper names an owner for gardens without one, and allows no bed for nobody.
type keeper struct{}

// Default names an owner.
func (keeper) Default(ctx context.Context, garden *Garden) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	if garden.Spec.Owner == "" {
		garden.Spec.Owner = request.UserInfo.Username
	}
	return nil
}

// ValidateCreate refuses gardens of nobody and warns of large ones.
func (keeper) ValidateCreate(_ context.Context, garden *Garden) (admission.Warnings, error) {
	if garden.Spec.Owner == "nobody" {
		return nil, fmt.Errorf("nobody owns a garden")
	}
	if garden.Spec.Beds > 10 {
		return admission.Warnings{"that is much work"}, nil
	}
	return nil, nil
}

// ValidateUpdate refuses to shrink a garden.
func (keeper) ValidateUpdate(_ context.Context, before, after *Garden) (admission.Warnings, error) {
	if after.Spec.Beds < before.Spec.Beds {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "gardens"}, after.Name, fmt.Errorf("it cannot shrink"))
	}
	return nil, nil
}

// ValidateDelete refuses to delete a garden that is kept.
func (keeper) ValidateDelete(_ context.Context, garden *Garden) (admission.Warnings, error) {
	if garden.Labels["kept"] == "yes" {
		return nil, fmt.Errorf("it is kept")
	}
	return nil, nil
}

// certify writes a certificate for loopback and its key to a folder; the certificate.
func certify(folder string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hooks"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600); err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
	return certificate, os.WriteFile(filepath.Join(folder, "tls.key"), text, 0o600)
}

// freePort is a port of loopback nobody listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// register has the server ask the hooks about a scenario's gardens; what it returns takes that back.
func register(ctx context.Context, w *world, direct client.Client, address string, certificate []byte) (func(), error) {
	at := func(path string) admissionv1.WebhookClientConfig {
		url := "https://" + address + path
		return admissionv1.WebhookClientConfig{URL: &url, CABundle: certificate}
	}
	on := func(operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: operations, Rule: admissionv1.Rule{
			APIGroups: []string{w.group}, APIVersions: []string{"v1"}, Resources: []string{"gardens"},
		}}}
	}
	none, versions := admissionv1.SideEffectClassNone, []string{"v1"}
	name := metav1.ObjectMeta{Name: "gardens." + w.group}
	mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: name, Webhooks: []admissionv1.MutatingWebhook{{
		Name: "default." + w.group, ClientConfig: at("/default"), Rules: on(admissionv1.Create, admissionv1.Update),
		SideEffects: &none, AdmissionReviewVersions: versions,
	}}}
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: name, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "validate." + w.group, ClientConfig: at("/validate"), Rules: on(admissionv1.OperationAll),
		SideEffects: &none, AdmissionReviewVersions: versions,
	}}}
	for _, one := range []client.Object{mutating, validating} {
		if err := direct.Create(ctx, one); err != nil {
			return nil, err
		}
	}
	return func() {
		_ = direct.Delete(context.Background(), mutating)
		_ = direct.Delete(context.Background(), validating)
	}, nil
}

// webhooks has controller-runtime's hooks decide on gardens.
func webhooks(ctx context.Context, w *world) error {
	if err := define(ctx, w); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "hooks-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	certificate, err := certify(folder)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	hooks := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: folder})
	m, err := managerOf(w, hooks)
	if err != nil {
		return err
	}
	err = ctrl.NewWebhookManagedBy(m, &Garden{}).WithDefaulter(keeper{}).WithDefaulterCustomPath("/default").
		WithValidator(keeper{}).WithValidatorCustomPath("/validate").Complete()
	if err != nil {
		return err
	}
	stop := start(ctx, m)
	warned := &warnings{}
	w.config.WarningHandlerWithContext = warned
	all, err := schemeOf(w)
	if err != nil {
		return err
	}
	direct, err := client.New(w.config, client.Options{Scheme: all})
	if err != nil {
		return err
	}
	err = until(ctx, "the hooks listen", func() (bool, error) {
		err := hooks.StartedChecker()(&http.Request{})
		return err == nil, err
	})
	if err != nil {
		return err
	}
	takeBack, err := register(ctx, w, direct, fmt.Sprintf("127.0.0.1:%d", port), certificate)
	if err != nil {
		return err
	}
	defer takeBack()
	garden := func(name string, beds int, owner string) *Garden {
		return &Garden{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: GardenSpec{Beds: beds, Owner: owner}}
	}
	first := garden("g", 2, "")
	checks := []check{
		{"a hook fills in the owner", func() error {
			// A new hook is not known at once.
			return until(ctx, "an object is changed by it", func() (bool, error) {
				probe := garden("probe", 1, "")
				if err := direct.Create(ctx, probe, client.DryRunAll); err != nil {
					return false, err
				}
				return probe.Spec.Owner != "", nil
			})
		}},
		{"and so for what is stored", func() error {
			if err := direct.Create(ctx, first); err != nil {
				return err
			}
			return truly(first.Spec.Owner != "" && first.Spec.Soil == "loam", "it is %+v", first.Spec)
		}},
		{"a hook refuses", func() error {
			err := direct.Create(ctx, garden("h", 1, "nobody"))
			return truly(apierrors.IsForbidden(err) && strings.Contains(err.Error(), "nobody owns a garden"), "it was %v", err)
		}},
		{"a hook warns", func() error {
			if err := direct.Create(ctx, garden("large", 12, "me")); err != nil {
				return err
			}
			return truly(warned.have("that is much work"), "there was no warning")
		}},
		{"a hook's own status is passed on", func() error {
			before := first.copy()
			first.Spec.Beds = 1
			err := direct.Patch(ctx, first, client.MergeFrom(before))
			return truly(apierrors.IsConflict(err) && strings.Contains(err.Error(), "it cannot shrink"), "it was %v", err)
		}},
		{"a hook sees deletions", func() error {
			kept := garden("kept", 1, "me")
			kept.Labels = map[string]string{"kept": "yes"}
			if err := direct.Create(ctx, kept); err != nil {
				return err
			}
			err := direct.Delete(ctx, kept)
			if !apierrors.IsForbidden(err) {
				return fmt.Errorf("it was %v", err)
			}
			before := kept.copy()
			kept.Labels = nil
			if err := direct.Patch(ctx, kept, client.MergeFrom(before)); err != nil {
				return err
			}
			return direct.Delete(ctx, kept)
		}},
		{"the definition's own rule holds after the hooks", func() error {
			current := &Garden{}
			if err := direct.Get(ctx, client.ObjectKeyFromObject(first), current); err != nil {
				return err
			}
			before := current.copy()
			current.Spec.Owner = "somebody else"
			err := direct.Patch(ctx, current, client.MergeFrom(before))
			return truly(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "a garden keeps its owner"), "it was %v", err)
		}},
	}
	if err := inOrder(checks); err != nil {
		return err
	}
	return step("the manager ends", stop)
}
