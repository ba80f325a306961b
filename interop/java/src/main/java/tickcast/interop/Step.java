package tickcast.interop;

/** Something a consumer does after the images have come. */
interface Step {
    void begin();

    /** What has still to come, null if the step is done. Called again and again; may go on by itself. */
    String awaited();
}
