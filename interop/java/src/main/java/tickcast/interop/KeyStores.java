package tickcast.interop;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.List;

/** Key stores as the library wants them, made of PEM files as everybody else has them. */
final class KeyStores {
    static final String TYPE = "PKCS12";
    static final String PASSWORD = "changeit";

    private KeyStores() {
    }

    /**
     * Path of a file that goes away with the process.
     *
     * @param caFile certificates to trust, null: none
     * @param certificateFile the own certificate and those above it, null: none
     * @param keyFile its key, PKCS 8, RSA or elliptic curve
     */
    static String ofPem(String caFile, String certificateFile, String keyFile) throws UsageError {
        try {
            KeyStore store = KeyStore.getInstance(TYPE);
            store.load(null, null);
            if (caFile != null) {
                int number = 0;
                for (Certificate certificate : certificates(caFile)) {
                    store.setCertificateEntry("ca" + number++, certificate);
                }
            }
            if (certificateFile != null) {
                Certificate[] chain = certificates(certificateFile).toArray(new Certificate[0]);
                store.setKeyEntry("own", key(keyFile), PASSWORD.toCharArray(), chain);
            }
            File file = File.createTempFile("tickcast", ".p12");
            file.deleteOnExit();
            try (OutputStream out = Files.newOutputStream(file.toPath())) {
                store.store(out, PASSWORD.toCharArray());
            }
            return file.getPath();
        } catch (IOException | GeneralSecurityException | IllegalArgumentException e) {
            throw new UsageError("--tls files: " + e);
        }
    }

    private static Collection<? extends Certificate> certificates(String file)
            throws IOException, GeneralSecurityException {
        try (InputStream in = Files.newInputStream(Path.of(file))) {
            return CertificateFactory.getInstance("X.509").generateCertificates(in);
        }
    }

    private static PrivateKey key(String file) throws IOException, GeneralSecurityException {
        String pem = new String(Files.readAllBytes(Path.of(file)), StandardCharsets.US_ASCII);
        String base64 = pem.replaceAll(
                "(?s).*-----BEGIN PRIVATE KEY-----(.*?)-----END PRIVATE KEY-----.*", "$1");
        PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(base64));
        for (String algorithm : List.of("EC", "RSA")) {
            try {
                return KeyFactory.getInstance(algorithm).generatePrivate(spec);
            } catch (InvalidKeySpecException e) {
                // the other, then
            }
        }
        throw new GeneralSecurityException(file + " holds no PKCS 8 key, RSA or elliptic curve");
    }
}
